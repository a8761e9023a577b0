package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Codes of failures that the agent does not name by a code of its own.
const (
	// CodeTimeout means that no answer came in time, or that the switch did not confirm in time. A change may still land.
	CodeTimeout = api.CodeTimeout
	// CodeUnreachable means that no connection came about, or that it broke.
	CodeUnreachable = "unreachable"
	// CodeCancelled means that the caller gave up.
	CodeCancelled = "cancelled"
	// CodeUnauthorised is for status 401 and 403.
	CodeUnauthorised = "unauthorised"
	// CodeUnsendable means that the request could not even be made: nothing left this machine.
	CodeUnsendable = "unsendable"
	// CodeNotAnAgent means that what answers at the endpoint does not speak the mux API.
	CodeNotAnAgent = "not_an_agent"
)

// An Error is a call that failed.
type Error struct {
	Code   string // one of the codes above or of package api
	Method string
	URL    string // without the reqId
	Status int    // of the last answer, also where that was another call's and spared this one; 0 when there was none
	ErrMsg string // the agent's own words, or what is wrong with its answer
	ReqID  string // the same for all tries; "" on reads
	// Attempts counts the tries.
	Attempts int
	// Repeated is true when another call has failed for the same reason and its caller got the whole story.
	Repeated bool
	// MayHaveLanded is true when a try may have changed the switch although the call failed.
	MayHaveLanded bool
	// Budget is the time of the operation, see WithBudget, when the call ended since that was spent; 0 otherwise.
	Budget time.Duration
	// Failed and Muxes are the agent's account of a call on many ports, by bridge.
	Failed map[string]api.Failure
	Muxes  api.Muxes
	// Err is why there was no answer; nil when there was one.
	Err error
	// Stopped is why the caller's context ended the call; nil when it did not.
	Stopped error
}

// Error names the call, what came back, the request id and the number of tries.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Method, e.URL)
	if e.Stopped != nil && !errors.Is(e.Err, e.Stopped) {
		fmt.Fprintf(&b, "%v; the last failure was: ", e.Stopped)
	}
	b.WriteString(e.Reason())
	var facts []string
	if e.ReqID != "" {
		facts = append(facts, "request id "+e.ReqID)
	}
	if e.Attempts != 1 {
		facts = append(facts, fmt.Sprintf("%d attempts", e.Attempts))
	}
	if facts != nil {
		fmt.Fprintf(&b, " (%s)", strings.Join(facts, ", "))
	}
	return b.String()
}

// makePrintable is the one place where a failure's words of others lose what a terminal would act on, before anybody prints
// them. Answers of 200 are handed on as they are.
func (e *Error) makePrintable() {
	e.ErrMsg, e.Code = api.Printable(e.ErrMsg), api.Printable(e.Code)
	if e.Failed == nil {
		return
	}
	failed := make(map[string]api.Failure, len(e.Failed))
	for bridge, f := range e.Failed {
		f.ErrMsg, f.Code = api.Printable(f.ErrMsg), api.Printable(f.Code)
		failed[api.Printable(bridge)] = f
	}
	e.Failed = failed
}

// Reason is the last failure alone: the status with the agent's words, then each mux that failed with the switch's.
func (e *Error) Reason() string {
	if e.Err != nil {
		return api.Printable(e.Err.Error())
	}
	reason := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	if e.ErrMsg != "" {
		reason += ": " + e.ErrMsg
	}
	for _, bridge := range slices.Sorted(maps.Keys(e.Failed)) {
		if words := e.Failed[bridge].ErrMsg; !strings.Contains(reason, words) {
			reason += fmt.Sprintf("; %s: %s", bridge, words)
		}
	}
	return reason
}

// Unwrap returns why there was no answer and why the caller's context ended the call.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Err, e.Stopped} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Code returns the code of an error from this package, "" for any other.
func Code(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// refused judges an answer that is not 200.
func (t *tries) refused(resp *http.Response, body []byte) (failure *Error, retry bool) {
	status := resp.StatusCode
	retry = status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
	var said struct {
		api.Error
		Reason string `json:"reason"` // of api.Readiness
	}
	unread := !isJSON(resp) || json.Unmarshal(body, &said) != nil
	if said.ErrMsg == "" {
		said.ErrMsg = said.Reason
	}
	if unread || said.ErrMsg == "" {
		e := t.notAnAgent(status, describeBody(resp, body))
		if status == http.StatusUnauthorized || status == http.StatusForbidden {
			e.Code = CodeUnauthorised
		}
		return e, retry
	}
	e := &Error{
		Code:   codeOf(resp, said.Error),
		Status: status,
		ErrMsg: said.ErrMsg,
		Failed: said.Failed,
		Muxes:  said.Muxes,
	}
	switch e.Code {
	case api.CodeSwitch, api.CodePartial:
		// The agent knows the switch. What it does not call passing needs a person.
		retry = slices.ContainsFunc(slices.Collect(maps.Values(said.Failed)), func(f api.Failure) bool { return f.Retryable })
	}
	return e, retry
}

// codeOf takes the agent's code. mux_simulator.py sends none; its words and the status tell.
func codeOf(resp *http.Response, said api.Error) string {
	if code := resp.Header.Get(api.ErrorCodeHeader); code != "" && resp.StatusCode != http.StatusUnauthorized {
		return code // and 401 has one code, whoever says it
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return CodeUnauthorised
	case http.StatusNotFound:
		switch {
		case strings.Contains(said.ErrMsg, "Unknown vm_set"):
			return api.CodeUnknownVMSet
		case strings.Contains(said.ErrMsg, "Unknown bridge"):
			return api.CodeUnknownPort
		}
		return api.CodeNotFound
	case http.StatusMethodNotAllowed:
		return api.CodeMethodNotAllowed
	case http.StatusUnsupportedMediaType:
		return api.CodeMediaType
	case http.StatusRequestEntityTooLarge:
		return api.CodeTooLarge
	case http.StatusServiceUnavailable:
		return api.CodeNotReady
	}
	switch {
	case len(said.Failed) > 0:
		return api.CodePartial
	case resp.StatusCode < 500:
		return api.CodeBadRequest
	}
	return api.CodeInternal
}

func (t *tries) notAnAgent(status int, what string) *Error {
	return &Error{Code: CodeNotAnAgent, Status: status, ErrMsg: what}
}

func isJSON(resp *http.Response) bool {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && mediaType == "application/json"
}

// describeBody says what an answer is that is not the API's, with its beginning when that can be read by a person.
func describeBody(resp *http.Response, body []byte) string {
	if to := resp.Header.Get("Location"); to != "" {
		return "a redirect to " + to
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	text := strings.Join(strings.Fields(string(body)), " ")
	switch {
	case mediaType == "text/html":
		return "an HTML page, as of a proxy or another web server"
	case text == "":
		return "an empty answer"
	case len(text) > 200:
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return fmt.Sprintf("an answer that the mux API does not give: %s", text)
}
