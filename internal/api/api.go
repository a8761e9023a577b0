// Package api holds the wire types of the mux HTTP API: what the agent answers and what its clients send.
//
// The agent, the provider, the command line and the tests share it, so a field has one name and one meaning. It imports
// the standard library alone and knows neither Open vSwitch nor Terraform. The paths, status codes and texts follow the
// service that it replaces, sonic-mgmt's mux_simulator.py; openapi.yaml beside this file is the reference for them.
package api

import "time"

// Sides and verbs as they are written on the wire.
const (
	NIC      = "nic"
	UpperToR = "upper_tor"
	LowerToR = "lower_tor"

	// Toggle and Random are verbs, accepted by POST only. A PATCH takes the two sides.
	Toggle = "toggle"
	Random = "random"
)

// Status is one mux as the switch has it now. Its keys are sorted, as the replaced service sorts them.
type Status struct {
	ActivePort string `json:"active_port"` // name of the OVS port of the active ToR
	ActiveSide string `json:"active_side"` // UpperToR or LowerToR
	Bridge     string `json:"bridge"`      // name of the OVS bridge
	// Conditions is what should be known of the mux, worst first; the first one gives Reason and ReasonCode. Absent where
	// there is nothing to say.
	Conditions []Condition `json:"conditions,omitempty"`
	// Dropped is the set of NIC, UpperToR and LowerToR to which somebody asked that nothing passes. It is nil where the
	// service doesn't tell, as mux_simulator.py and agents before 0.2.0 don't; then only Flows tells.
	Dropped []string `json:"dropped"`
	// FlapCounter counts the changes of side made through the API since the agent started or the counter was cleared.
	FlapCounter int `json:"flap_counter"`
	// Flows maps the NIC's port and the active ToR's port, always these two, to what passes from it.
	Flows map[string][]Action `json:"flows"`
	// Healthy is true while nothing is dropped and no condition is one of those that make a mux unhealthy (see Conditions).
	Healthy   bool  `json:"healthy"`
	PortIndex int   `json:"port_index"`
	Ports     Ports `json:"ports"`
	// Reason says what is worth knowing first, where that is not simply a requested drop. Absent otherwise.
	Reason      string `json:"reason,omitempty"`
	ReasonCode  string `json:"reason_code,omitempty"` // the code of Reason, see Conditions
	StandbyPort string `json:"standby_port"`
	StandbySide string `json:"standby_side"`
	VMSet       string `json:"vm_set"`
}

// Action is one output of a flow.
type Action struct {
	Action  string `json:"action"` // always "output"
	OutPort string `json:"out_port"`
}

// Ports names the three OVS ports of a mux.
type Ports struct {
	LowerToR string `json:"lower_tor"`
	NIC      string `json:"nic"`
	UpperToR string `json:"upper_tor"`
}

// SetSide is the body of POST /mux/<vm_set> and POST /mux/<vm_set>/<port>.
type SetSide struct {
	ActiveSide string `json:"active_side"` // UpperToR, LowerToR, Toggle or Random
}

// OutSides is the body of the output and drop actions.
type OutSides struct {
	OutSides []string `json:"out_sides"` // any subset of NIC, UpperToR, LowerToR
}

// ClearFlapCounter is the body of POST /mux/<vm_set>/clear_flap_counter.
type ClearFlapCounter struct {
	PortToClear string `json:"port_to_clear"` // "all", or port indexes joined by "|"
}

// Patch is the body of PATCH /mux/<vm_set>: the desired state of some ports, by port index.
type Patch struct {
	Ports map[string]Desired `json:"ports"`
}

// Desired is what one port shall be. A nil field is left alone.
type Desired struct {
	ActiveSide *string   `json:"active_side,omitempty"` // UpperToR or LowerToR
	Dropped    *[]string `json:"dropped,omitempty"`     // the whole set of dropped NIC, UpperToR, LowerToR
}

// Muxes is the answer of every call on all ports and of PATCH: status by bridge.
type Muxes map[string]Status

// Error is the body of every answer that is not 200.
type Error struct {
	ErrMsg string `json:"err_msg"`
	// Failed names each mux that a call on many ports could not change, by bridge; Muxes is the status of all of them.
	Failed    map[string]Failure `json:"failed,omitempty"`
	Muxes     Muxes              `json:"muxes,omitempty"`
	Traceback []string           `json:"traceback,omitempty"` // the error chain, outermost first; only with -v
}

// Failure is why one mux of a call on many ports was not changed.
type Failure struct {
	Code      string `json:"code"`
	ErrMsg    string `json:"err_msg"`
	Retryable bool   `json:"retryable"`
}

// ErrorCodeHeader carries one of the codes below on every answer that is not 200, so that the body stays as the replaced
// service wrote it.
const ErrorCodeHeader = "Mux-Error-Code"

// Overview is the answer of GET /mux.
type Overview struct {
	VMSets map[string]VMSet `json:"vm_sets"`
}

// VMSet is what the agent knows of one testbed.
type VMSet struct {
	Muxes      int        `json:"muxes"`                 // number of muxes served
	Ready      bool       `json:"ready"`                 // false until the switch was read once
	Reason     string     `json:"reason,omitempty"`      // why it is not ready
	ReasonCode string     `json:"reason_code,omitempty"` // one of the NotReady codes
	Rejected   []Rejected `json:"rejected"`              // bridges whose name fits and which are not a usable mux
}

// Rejected is a bridge that is named like a mux of the vm_set and can't be served.
type Rejected struct {
	Bridge    string `json:"bridge"`
	Code      string `json:"code"` // one of the Rejected codes
	PortIndex int    `json:"port_index"`
	Reason    string `json:"reason"`
}

// Event is one change of a mux, as GET …/events streams it and GET …/history lists it.
type Event struct {
	Bridge    string    `json:"bridge"`
	By        string    `json:"by,omitempty"` // name of who asked, of a token or a certificate; absent where nobody knows
	Cause     Cause     `json:"cause"`
	Client    string    `json:"client"` // IP address of who asked, "" when nobody did
	From      *MuxState `json:"from"`   // null when there was no mux
	PortIndex int       `json:"port_index"`
	ReqID     string    `json:"req_id"`
	Seq       uint64    `json:"seq"`     // rises with each event, also over restarts of the agent
	Time      time.Time `json:"time"`    // RFC 3339, UTC
	To        *MuxState `json:"to"`      // null when there is no mux any more
	TookUS    int64     `json:"took_us"` // microseconds from the request to the switch's answer
	VMSet     string    `json:"vm_set"`
}

// MuxState is what an event says of a mux.
type MuxState struct {
	ActiveSide string   `json:"active_side"`
	Dropped    []string `json:"dropped"` // of NIC, UpperToR, LowerToR
	Healthy    bool     `json:"healthy"`
	Reason     string   `json:"reason,omitempty"`
	ReasonCode string   `json:"reason_code,omitempty"` // see Conditions
}

// History is the answer of GET …/history, oldest event first.
type History struct {
	Events []Event `json:"events"`
}

// Names of the server-sent events of GET …/events. The id of each is a sequence number, to be sent as Last-Event-ID by a
// reader that reconnects.
const (
	EventChange = "change" // data is an Event
	EventMissed = "missed" // some events are no longer kept, or are of an agent that was restarted: read the status anew
)

// Readiness is the answer of GET /readyz: 200 when ready, 503 otherwise.
type Readiness struct {
	Ready      bool   `json:"ready"`
	Reason     string `json:"reason,omitempty"`
	ReasonCode string `json:"reason_code,omitempty"` // one of the NotReady codes
}

// Version is the answer of GET /version.
type Version struct {
	// Driver is how the switch is driven: openflow, ovs-ofctl or simulated. Empty where the agent is older than 0.2.0.
	Driver  string `json:"driver,omitempty"`
	Go      string `json:"go"`
	Version string `json:"version"`
}

// RejectedHeader names on the answer of a change of all ports up to five of the bridges that it left out, because they are not
// a usable mux; GET /mux says why.
const RejectedHeader = "Mux-Rejected"
