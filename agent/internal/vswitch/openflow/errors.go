package openflow

import (
	"errors"
	"fmt"
	"strings"
)

// An Error is an OpenFlow error message: what OVS says to a request it does not do (ofp_error_msg).
type Error struct {
	Type, Code   uint16
	Experimenter uint32 // whose code it is, when Type is 0xffff
	Text         string // OVS's own sentence; it sends one only when versions do not agree
}

// Error returns the name of the error as ovs-ofctl prints it, or its numbers when it has none.
func (e *Error) Error() string {
	if e.Text != "" {
		return e.Name() + ": " + e.Text
	}
	return e.Name()
}

// Name returns the error's name as the specification and OVS spell it, such as OFPFMFC_TABLE_FULL.
func (e *Error) Name() string {
	if e.Type == errExperimenter {
		if name := nameIn(niciraErrors, e.Code); e.Experimenter == nicira && name != "" {
			return name
		}
		return fmt.Sprintf("OpenFlow error %#x of experimenter %#x", e.Code, e.Experimenter)
	}
	f := errorFamily(e.Type)
	if name := nameIn(f.codes, e.Code); name != "" {
		return f.prefix + name
	}
	return fmt.Sprintf("OpenFlow error of type %#x, code %#x", e.Type, e.Code)
}

func nameIn(names string, code uint16) string {
	list := strings.Fields(names)
	if int(code) >= len(list) || list[code] == "-" {
		return ""
	}
	return list[code]
}

const (
	errHelloFailed  = 0
	errExperimenter = 0xffff
	nicira          = 0x00002320
)

// parseError reads the body of an error message.
func parseError(b []byte) *Error {
	if len(b) < 4 {
		return &Error{Type: errExperimenter, Text: "the error message itself is cut short"}
	}
	e := &Error{Type: be.Uint16(b), Code: be.Uint16(b[2:])}
	switch {
	case e.Type == errHelloFailed:
		e.Text = strings.ToValidUTF8(strings.Trim(string(b[4:]), "\x00"), "?")
	case e.Type == errExperimenter && len(b) >= 8:
		e.Experimenter = be.Uint32(b[4:])
	}
	return e
}

// A VersionError is a bridge whose protocols exclude OpenFlow 1.4. Nothing helps but to change the bridge.
type VersionError struct {
	Bridge string
	Err    error // OVS's own words, nil when its hello was enough
}

// Error says what is wrong with the bridge, and the command that mends it.
func (e *VersionError) Error() string {
	s := "the bridge's protocols exclude OpenFlow 1.4; to allow it: ovs-vsctl clear bridge " + e.Bridge + " protocols"
	if e.Err != nil {
		s += " (OVS says: " + e.Err.Error() + ")"
	}
	return s
}

// Unwrap returns OVS's own error.
func (e *VersionError) Unwrap() error { return e.Err }

var (
	errClosed   = errors.New("the connection to OVS was closed by this agent")
	errHangUp   = errors.New("OVS closed the connection")
	errNoAnswer = errors.New("OVS did not answer in time")
	// errOtherVersion is about a message that comes on a connection of OpenFlow 1.4.
	errOtherVersion = errors.New("OVS sent a message of OpenFlow version")
	errUnfit        = errors.New("not a flow of a mux")
)

// A family is the codes of one error type, in their order; "-" is none.
type family struct{ prefix, codes string }

// errorFamily returns the codes of an error type, as far as the messages of this package can meet it
// (ofp_error_type).
func errorFamily(kind uint16) family {
	return map[uint16]family{
		errHelloFailed: {"OFPHFC_", "INCOMPATIBLE EPERM"},
		1: {"OFPBRC_", `BAD_VERSION BAD_TYPE BAD_STAT BAD_VENDOR BAD_SUBTYPE EPERM BAD_LEN BUFFER_EMPTY BUFFER_UNKNOWN
			BAD_TABLE_ID IS_SECONDARY BAD_PORT BAD_PACKET MULTIPART_BUFFER_OVERFLOW MULTIPART_REQUEST_TIMEOUT
			MULTIPART_REPLY_TIMEOUT`},
		2: {"OFPBAC_", `BAD_TYPE BAD_LEN BAD_VENDOR BAD_VENDOR_TYPE BAD_OUT_PORT BAD_ARGUMENT EPERM TOO_MANY BAD_QUEUE
			BAD_OUT_GROUP MATCH_INCONSISTENT UNSUPPORTED_ORDER BAD_TAG BAD_SET_TYPE BAD_SET_LEN BAD_SET_ARGUMENT`},
		3: {"OFPBIC_", `UNKNOWN_INST UNSUP_INST BAD_TABLE_ID UNSUP_METADATA UNSUP_METADATA_MASK BAD_EXPERIMENTER
			BAD_EXP_TYPE BAD_LEN EPERM DUP_INST`},
		4: {"OFPBMC_", `BAD_TYPE BAD_LEN BAD_TAG BAD_DL_ADDR_MASK BAD_NW_ADDR_MASK BAD_WILDCARDS BAD_FIELD BAD_VALUE
			BAD_MASK BAD_PREREQ DUP_FIELD EPERM`},
		5: {"OFPFMFC_", `UNKNOWN TABLE_FULL BAD_TABLE_ID OVERLAP EPERM BAD_TIMEOUT BAD_COMMAND BAD_FLAGS CANT_SYNC
			BAD_PRIORITY IS_SYNC`},
		10: {"OFPSCFC_", "BAD_FLAGS BAD_LEN EPERM"},
		15: {"OFPACFC_", "INVALID UNSUPPORTED EPERM"},
		17: {"OFPBFC_", `UNKNOWN EPERM BAD_ID BUNDLE_EXIST BUNDLE_CLOSED OUT_OF_BUNDLES BAD_TYPE BAD_FLAGS MSG_BAD_LEN
			MSG_BAD_XID MSG_UNSUP MSG_CONFLICT MSG_TOO_MANY MSG_FAILED TIMEOUT BUNDLE_IN_PROGRESS`},
	}[kind]
}

// niciraErrors are OVS's own codes, by what ovs-ofctl prints for them.
const niciraErrors = `- - NXBRC_NXM_INVALID NXBRC_NXM_BAD_TYPE NXBRC_MUST_BE_ZERO NXBRC_BAD_REASON - - - NXBRC_FM_BAD_EVENT
	NXBRC_UNENCODABLE_ERROR NXBAC_MUST_BE_ZERO NXFMFC_HARDWARE NXFMFC_BAD_TABLE_ID - NXBAC_BAD_CONJUNCTION
	NXTTMFC_BAD_COMMAND NXTTMFC_BAD_OPT_LEN NXTTMFC_BAD_FIELD_IDX NXTTMFC_TABLE_FULL NXTTMFC_ALREADY_MAPPED
	NXTTMFC_DUP_ENTRY OFPBFC_BAD_VERSION NXQOFC_QUEUE_ERROR - - - - - - - - - - NXR_NOT_SUPPORTED NXR_STALE
	NXST_NOT_CONFIGURED NXFMFC_INVALID_TLV_FIELD NXTTMFC_INVALID_TLV_DEL NXBAC_BAD_HEADER_TYPE NXBAC_UNKNOWN_ED_PROP
	NXBAC_BAD_ED_PROP NXBAC_CT_DATAPATH_SUPPORT NXBMC_CT_DATAPATH_SUPPORT NXTFFC_DUP_TABLE`
