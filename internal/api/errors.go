package api

import (
	"net/http"
	"slices"
)

// Error codes. ErrorCodes has the status of each.
const (
	CodeUnauthorized     = "unauthorized"
	CodeForbidden        = "forbidden"
	CodeUnknownVMSet     = "unknown_vm_set"
	CodeUnknownPort      = "unknown_port"
	CodeRejectedMux      = "rejected_mux"
	CodeNotFound         = "not_found"
	CodeMethodNotAllowed = "method_not_allowed"
	CodeBadRequest       = "bad_request"
	CodeMediaType        = "unsupported_media"
	CodeConflict         = "conflict"
	CodeNotReached       = "not_reached"
	CodeTooLarge         = "too_large"
	CodeNotReady         = "not_ready"
	CodeSwitch           = "switch_error"
	CodeTimeout          = "timeout"
	CodePartial          = "partial_failure"
	CodeInternal         = "internal"
)

// An ErrorCode says what one code means.
type ErrorCode struct {
	Code   string
	Status int // of the answer that bears it
	Means  string
}

// errorCodes is the one table of error codes.
var errorCodes = [...]ErrorCode{
	{CodeUnauthorized, http.StatusUnauthorized, "the address wants a token or a client certificate"},
	{CodeForbidden, http.StatusForbidden, "the token or the certificate lacks the role, or a browser asked for a page of another site, or by a name that is not the agent's"},
	{CodeUnknownVMSet, http.StatusNotFound, "the agent serves another vm_set"},
	{CodeUnknownPort, http.StatusNotFound, "there is no bridge of that index"},
	{CodeRejectedMux, http.StatusNotFound, "there is a bridge, but it is not a usable mux; GET /mux says why"},
	{CodeNotFound, http.StatusNotFound, "there is no such path"},
	{CodeMethodNotAllowed, http.StatusMethodNotAllowed, "the path takes other methods; the header Allow lists them"},
	{CodeBadRequest, http.StatusBadRequest, "the body or the query is not what the route takes"},
	{CodeMediaType, http.StatusUnsupportedMediaType, "the body is not said to be JSON"},
	{CodeConflict, http.StatusConflict, "the reqId was used for another call"},
	{CodeNotReached, http.StatusPreconditionFailed, "the side that was waited for is not the active one; the body is the status"},
	{CodeTooLarge, http.StatusRequestEntityTooLarge, "the body is larger than the agent takes"},
	{CodeNotReady, http.StatusServiceUnavailable, "the switch was not read yet, its flows are being restored, too many bodies, answers or event streams are on their way, or the agent is stopping; see Retry-After"},
	{CodeSwitch, http.StatusInternalServerError, "the switch refused; nothing was changed"},
	{CodeTimeout, http.StatusInternalServerError, "the switch did not confirm in time; the change may still land"},
	{CodePartial, http.StatusInternalServerError, "some muxes of a call on many failed; the body names them"},
	{CodeInternal, http.StatusInternalServerError, "a fault of the agent"},
}

// ErrorCodes lists all error codes.
func ErrorCodes() []ErrorCode { return slices.Clone(errorCodes[:]) }

// StatusOf returns the status of the answer that bears an error code, 500 for one that is not known.
func StatusOf(code string) int {
	for i := range errorCodes {
		if errorCodes[i].Code == code {
			return errorCodes[i].Status
		}
	}
	return http.StatusInternalServerError
}
