package api

import "slices"

// A Condition is something that a reader of a mux should know beside its side and its requested drops.
type Condition struct {
	Code string `json:"code"` // one of the codes of Conditions
	// Cure says what helps: a command, or whom to ask. Absent where nothing is to be done.
	Cure   string `json:"cure,omitempty"`
	Reason string `json:"reason"` // for people; programs decide by the code
}

// Codes of conditions.
const (
	ConditionUnreadable     = "unreadable"
	ConditionRestoring      = "restoring"
	ConditionUnconfirmed    = "unconfirmed"
	ConditionNotAMux        = "not_a_mux"
	ConditionPortMissing    = "port_missing"
	ConditionPortBlocked    = "port_blocked"
	ConditionBothForward    = "both_forward"
	ConditionFlowsMissing   = "flows_missing"
	ConditionForeignFlow    = "foreign_flow"
	ConditionFault          = "fault"
	ConditionStandbyMissing = "standby_missing"
	ConditionStandbyBlocked = "standby_blocked"
	ConditionRestoreWaitSet = "restore_wait_set"
	ConditionFailMode       = "fail_mode"
	ConditionProtocols      = "protocols"
	ConditionSpanningTree   = "spanning_tree"
	ConditionController     = "controller"
	ConditionPortDown       = "port_down"
)

// A ConditionKind says what one code means for those who read it.
type ConditionKind struct {
	Code string
	// Unhealthy is true when the mux doesn't do what it should, so that healthy is false.
	Unhealthy bool
	// WriteHeals is true when the next change of the mux mends it, also one that sets the side that is.
	WriteHeals bool
	Means      string
}

// conditionKinds is the one table of conditions, worst first.
var conditionKinds = [...]ConditionKind{
	{ConditionUnreadable, true, false, "Open vSwitch can't be read; the status is the last one that was"},
	{ConditionRestoring, true, false, "ovs-vswitchd was started with flow-restore-wait and forwards nothing until that is removed"},
	{ConditionNotAMux, true, false, "the bridge of a served port was changed and is not a usable mux at present"},
	{ConditionUnconfirmed, true, true, "Open vSwitch did not confirm the last change in time; whether it was applied is being read back"},
	{ConditionPortMissing, true, false, "the port of the server or of the active ToR has no device, or no OpenFlow port number"},
	{ConditionPortBlocked, true, false, "the port of the server or of the active ToR is administratively down, told not to receive or forward, or held back by a spanning tree"},
	{ConditionBothForward, true, true, "the packets of both ToRs reach the server"},
	{ConditionFlowsMissing, true, true, "a flow that the mux needs is not on the bridge"},
	{ConditionForeignFlow, true, true, "there is a flow on the bridge that the mux doesn't need, or one that will time out"},
	{ConditionFault, true, false, "a fault that somebody asked for is active"},
	{ConditionStandbyMissing, false, false, "the port of the standby ToR has no device, or no OpenFlow port number; the active way is whole"},
	{ConditionStandbyBlocked, false, false, "the port of the standby ToR passes nothing, as with port_blocked; the active way is whole"},
	{ConditionRestoreWaitSet, false, false, "flow-restore-wait is set: after its next restart ovs-vswitchd will forward nothing"},
	{ConditionFailMode, false, false, "fail_mode is not secure: without flows the bridge would connect both ToRs with each other"},
	{ConditionProtocols, false, false, "the bridge's protocols were restricted"},
	{ConditionSpanningTree, false, false, "a spanning tree is enabled on the bridge and may block a port at any time"},
	{ConditionController, false, false, "a controller is set on the bridge and may change its flows at any time"},
	{ConditionPortDown, false, false, "a port has no carrier"},
}

// Conditions lists all kinds of conditions, worst first: in this order a status lists its conditions.
func Conditions() []ConditionKind { return slices.Clone(conditionKinds[:]) }

// ConditionKindOf returns the kind of a code. ok is false for a code that this version doesn't know; then nothing is said
// of it.
func ConditionKindOf(code string) (kind ConditionKind, ok bool) {
	for i := range conditionKinds {
		if conditionKinds[i].Code == code {
			return conditionKinds[i], true
		}
	}
	return ConditionKind{}, false
}

// Rank orders codes from the worst on; a code that this version doesn't know comes last.
func Rank(code string) int {
	for i := range conditionKinds {
		if conditionKinds[i].Code == code {
			return i
		}
	}
	return len(conditionKinds)
}

// Unhealthy reports whether a condition of this code makes a mux unhealthy.
func Unhealthy(code string) bool {
	kind, ok := ConditionKindOf(code)
	return ok && kind.Unhealthy
}

// Codes of why a bridge that is named like a mux is not served.
const (
	RejectedPorts     = "ports"       // it doesn't have the three ports of a mux, or more than three that could be
	RejectedSides     = "sides"       // its ports can't be told apart: no NIC, or mux-side is wrong
	RejectedProtocols = "protocols"   // its protocols lack OpenFlow14
	RejectedIndex     = "index_taken" // another bridge of the same port index is served
	RejectedRefused   = "refused"     // Open vSwitch refuses what the agent asks of it
)

// CureOfRejection says what makes a usable mux of a bridge that was rejected with a code.
func CureOfRejection(bridge, code string) string {
	switch code {
	case RejectedProtocols:
		return "ovs-vsctl clear bridge " + bridge + " protocols"
	case RejectedIndex:
		return "delete one of the two bridges, or rename it"
	case RejectedSides:
		return "say which port is which: ovs-vsctl set interface <port> external_ids:mux-side=nic (or upper_tor, lower_tor)"
	case RejectedRefused:
		return "look into the log of ovs-vswitchd, /var/log/openvswitch/ovs-vswitchd.log"
	}
	return "make it a bridge of three ports, one of which starts with mu; the agent serves it by itself then"
}

// Codes of why a vm_set is not ready.
const (
	NotReadyStarting   = "starting"   // the switch is being read for the first time
	NotReadyOVSDB      = "ovsdb"      // the database of Open vSwitch can't be reached or read
	NotReadyVSwitchd   = "vswitchd"   // no bridge answers
	NotReadyRestoring  = "restoring"  // ovs-vswitchd waits for its flows to be restored
	NotReadyStuck      = "stuck"      // the agent no longer reads the switch, by a fault of its own
	NotReadyPermission = "permission" // the agent may not open Open vSwitch's sockets
)

// A Cause is why a mux changed.
type Cause string

// The causes.
const (
	CauseAPI      Cause = "api"      // a client asked
	CauseExternal Cause = "external" // somebody changed the switch
	CauseRecovery Cause = "recovery" // the switch lost what the agent had written, or the agent put it right
	CauseOutage   Cause = "outage"   // the switch could not be read, or can be read again
)
