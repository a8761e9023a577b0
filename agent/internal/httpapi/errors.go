package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
	"github.com/sonic-mux/terraform-provider-mux/agent/internal/engine"
	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// An httpError is an answer that is not 200.
type httpError struct {
	code   string // which gives the status
	name   string // the exception's class name in the replaced service, which its clients see; "" for errors of our own
	text   string
	failed map[string]api.Failure
	muxes  api.Muxes
	err    error // the cause, for traceback
}

// Error is err_msg: the class, the status line and the text, as the replaced service wrote its exceptions.
func (e *httpError) Error() string {
	if e.name == "" {
		return e.text
	}
	line := fmt.Sprintf("%d %s", e.status(), werkzeugTitle(e.status()))
	return fmt.Sprintf("<%s '%s'> %s: %s", e.name, fmt.Sprintf("%d: %s", e.status(), werkzeugTitle(e.status())), line, e.text)
}

func (e *httpError) status() int { return api.StatusOf(e.code) }

func (e *httpError) Unwrap() error { return e.err }

// werkzeugTitle is Go's text, but for one status that the replaced service's library names the older way.
func werkzeugTitle(status int) string {
	if status == http.StatusRequestEntityTooLarge {
		return "Request Entity Too Large"
	}
	return http.StatusText(status)
}

func errNotFound() error {
	return &httpError{
		code: api.CodeNotFound, name: "NotFound",
		text: "The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.",
	}
}

func errUnknownVMSet(name string) error {
	return &httpError{
		code: api.CodeUnknownVMSet, name: "NotFound",
		text: fmt.Sprintf("Unknown vm_set \"%s\"", name),
	}
}

// errUnknownPort says why the port is not served where there is a bridge for it.
func errUnknownPort(e *engine.Engine, port string) error {
	code, text := api.CodeUnknownPort, fmt.Sprintf("Unknown bridge, vm_set=%s, port_index=%s", e.VMSet(), strings.TrimLeft(port[:len(port)-1], "0")+port[len(port)-1:])
	for _, r := range e.Rejected() {
		if r.Index == portIndex(port) {
			code = api.CodeRejectedMux
			text += fmt.Sprintf(" (bridge %s is not a usable mux: %s)", r.Bridge, r.Reason)
		}
	}
	return &httpError{code: code, name: "NotFound", text: text}
}

func errUnknownAction(r *http.Request) error {
	return &httpError{
		code: api.CodeNotFound, name: "NotFound",
		text: about(r) + ` msg=Expected url "/mux/<vm_set>/<port_index>/<action>", action must be "output", "drop", or "reset".`,
	}
}

func errMethodNotAllowed() error {
	return &httpError{
		code: api.CodeMethodNotAllowed, name: "MethodNotAllowed",
		text: "The method is not allowed for the requested URL.",
	}
}

func errMediaType() error {
	return &httpError{
		code: api.CodeMediaType, name: "UnsupportedMediaType",
		text: "Did not attempt to load JSON data because the request Content-Type was not 'application/json'.",
	}
}

func errNoJSON(cause error) error {
	return &httpError{
		code: api.CodeBadRequest, name: "BadRequest", err: cause,
		text: "The browser (or proxy) sent a request that this server could not understand.",
	}
}

func errTooLarge() error {
	return &httpError{
		code: api.CodeTooLarge, name: "RequestEntityTooLarge",
		text: fmt.Sprintf("The data value transmitted exceeds the capacity limit (%d bytes).", maxBody),
	}
}

// maxEcho is how much of a request's own text an error repeats, in bytes.
const maxEcho = 2 << 10

// errPosted is for JSON that is not what the route takes.
func errPosted(r *http.Request, data []byte, msg string) error {
	return &httpError{
		code: api.CodeBadRequest, name: "BadRequest",
		text: fmt.Sprintf("%s data=%s msg=%s", about(r), short(string(data), maxEcho), msg),
	}
}

// errQuery is for a query or a header of a route that the replaced service did not have.
func errQuery(r *http.Request, msg string) error {
	return &httpError{
		code: api.CodeBadRequest, name: "BadRequest",
		text: fmt.Sprintf("%s msg=%s", about(r), msg),
	}
}

// about names a request as the replaced service did.
func about(r *http.Request) string {
	return fmt.Sprintf("remote_addr=%s method=%s url=%s", clientIP(r), r.Method, fullURL(r))
}

func fullURL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	u := *r.URL
	u.Scheme, u.Host = scheme, r.Host
	return short(u.String(), maxEcho)
}

func errNotReady(vmSet string, cause error) error {
	return &httpError{
		code: api.CodeNotReady, err: cause,
		text: fmt.Sprintf("vm_set %s is not ready: %v", vmSet, cause),
	}
}

// errLater is for what comes while the agent stops, or while Open vSwitch waits for its flows.
func errLater(cause error) error {
	return &httpError{code: api.CodeNotReady, text: cause.Error(), err: cause}
}

// allRestoring is the error of a call of which nothing was done because Open vSwitch waits for its flows; else nil.
func allRestoring(asked map[int]cable.Change, failed map[string]api.Failure) error {
	for _, f := range failed {
		if f.Code != api.CodeNotReady {
			return nil
		}
	}
	if len(failed) < len(asked) || len(failed) == 0 {
		return nil
	}
	return errLater(engine.ErrRestoring)
}

// errChange is for a change of one mux that failed.
func errChange(e *engine.Engine, snap *engine.Snapshot, err error) error {
	if errors.Is(err, engine.ErrUnknownPort) {
		return errUnknownPort(e, fmt.Sprint(snap.Index))
	}
	if errors.Is(err, engine.ErrStopping) || errors.Is(err, engine.ErrRestoring) {
		return errLater(err)
	}
	failed := map[string]api.Failure{snap.Bridge: failure(err)}
	return &httpError{code: failed[snap.Bridge].Code, text: err.Error(), failed: failed, err: err}
}

// errReload is for a switch that could not be read as a whole; then nothing was changed.
func errReload(err error) error {
	return &httpError{code: api.CodeSwitch, text: "reload: " + err.Error(), err: err}
}

// maxNamed is how many muxes a text names; failed lists all of them.
const maxNamed = 5

func errPartial(asked int, failed map[string]api.Failure, muxes api.Muxes) error {
	var bridges []string
	for bridge := range failed {
		bridges = append(bridges, bridge)
	}
	slices.Sort(bridges)
	first := failed[bridges[0]].ErrMsg
	return &httpError{
		code: api.CodePartial, failed: failed, muxes: muxes,
		text: fmt.Sprintf("%d of %d muxes failed, the others are done: %s: %s",
			len(failed), asked, strings.Join(few(bridges), ", "), first),
	}
}

// few names some of many.
func few(bridges []string) []string {
	if more := len(bridges) - maxNamed; more > 0 {
		return append(bridges[:maxNamed:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return bridges
}

// failure says of one failed change what a client needs to decide on a retry.
func failure(err error) api.Failure {
	f := api.Failure{Code: api.CodeInternal, ErrMsg: err.Error()}
	var refused *cable.SwitchError
	switch {
	case errors.As(err, &refused) && refused.Unknown:
		f.Code, f.Retryable = api.CodeTimeout, true
	case errors.As(err, &refused):
		f.Code, f.Retryable = api.CodeSwitch, refused.Retryable
	case errors.Is(err, engine.ErrUnknownPort):
		f.Code = api.CodeUnknownPort
	case errors.Is(err, engine.ErrRestoring):
		f.Code, f.Retryable = api.CodeNotReady, true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, engine.ErrStopping):
		f.Retryable = true
	}
	return f
}

// writeError is the one place where errors become answers.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	var he *httpError
	if !errors.As(err, &he) {
		he = &httpError{code: api.CodeInternal, text: err.Error(), err: err}
	}
	body := api.Error{ErrMsg: he.Error(), Failed: he.failed, Muxes: he.muxes}
	if s.verbose {
		body.Traceback = chain(he)
	}
	if he.status() == http.StatusServiceUnavailable {
		setRetryAfter(w)
	}
	w.Header().Set(api.ErrorCodeHeader, he.code)
	s.logRefusal(r, he.status(), body.ErrMsg)
	write(w, he.status(), encode(body))
}

// logRefusal logs a request that failed, in short. Whoever sends many that are refused fills no disk.
func (s *Server) logRefusal(r *http.Request, status int, words string) {
	level := level(r.Method, status)
	if !s.log.Enabled(r.Context(), level) {
		return
	}
	var attrs []slog.Attr
	if status < http.StatusInternalServerError {
		untold, ok := s.refused.allow(time.Now())
		if !ok {
			return
		}
		if untold > 0 {
			attrs = append(attrs, slog.Int("not_logged", untold))
		}
	}
	attrs = append(attrs, slog.String("client", clientIP(r)), slog.String("by", caller(r).Name), slog.String("req_id", short(reqID(r), maxReqID)), slog.String("method", short(r.Method, 32)),
		slog.String("url", short(r.URL.String(), maxLogged)), slog.Int("status", status), slog.String("err", short(words, 4*maxLogged)))
	s.log.LogAttrs(r.Context(), level, "request failed", attrs...)
}

// level is that of a failed request in the log. Polls that fail would drown it, unless it is for lack of permission.
func level(method string, status int) slog.Level {
	switch {
	case status == http.StatusServiceUnavailable:
		return slog.LevelDebug // the reason is logged once, by the engine
	case status >= http.StatusInternalServerError:
		return slog.LevelError
	case status == http.StatusUnauthorized, status == http.StatusForbidden, method != http.MethodGet && method != http.MethodHead:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// setRetryAfter names the pause in which an agent that waits for its switch looks again, in whole seconds.
func setRetryAfter(w http.ResponseWriter) { w.Header().Set("Retry-After", "1") }

// chain lists an error and all its causes, outermost first.
func chain(err error) []string {
	var texts []string
	for ; err != nil; err = errors.Unwrap(err) {
		texts = append(texts, fmt.Sprintf("%T: %v", err, err))
	}
	return texts
}
