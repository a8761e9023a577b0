package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A page of another site must neither switch nor read anything through the browser of somebody who can reach the agent.
// Browsers say where a request comes from, by Sec-Fetch-Site and Origin; other clients send neither. A page whose own name
// was made to lead to the agent (DNS rebinding) is of the same origin, and given away by that name alone.

// hosts are the names under which a browser may know the agent.
type hosts struct {
	names    map[string]bool
	suffixes []string // ".example.com" allows every name below example.com
}

func newHosts(allowed []string) hosts {
	h := hosts{names: map[string]bool{}}
	for _, name := range allowed {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, ".") {
			h.suffixes = append(h.suffixes, name)
			continue
		}
		h.names[name] = true
	}
	return h
}

// allow reports whether a Host header is one of ours. An address can't be rebound, nor can localhost; a name without a dot
// can, where the search list of a resolver ends in a stranger's domain. An HTTP/1.0 client sends none.
func (h *hosts) allow(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		name = host[:i]
	}
	if name == "" {
		return true
	}
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if h.names[name] || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	for _, suffix := range h.suffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// admit refuses what a page of another site makes a browser ask.
func (s *Server) admit(r *http.Request) error {
	if fromBrowser(r) && !s.hosts.allow(r.Host) {
		return errForbidden(fmt.Sprintf("the agent is not known by the name %q; call it by its address, or start it with --allow-host", r.Host))
	}
	// Its Check lets reads pass whoever asks. A stream of events costs us something, so reads are judged like changes, but for
	// a link that somebody has followed.
	judged := http.Request{Method: http.MethodPost, Host: r.Host, URL: r.URL, Header: r.Header}
	if followsLink(r) {
		judged.Header = http.Header{"Origin": r.Header["Origin"]}
	}
	if err := s.origins.Check(&judged); err != nil {
		return errForbidden("pages of other sites may not use the agent")
	}
	return nil
}

// fromBrowser reports whether a request may be a browser's. Browsers send Accept-Language with every request, which a
// script can set and cannot remove; the clients of testbeds, which may call the agent by any name, send none of these.
func fromBrowser(r *http.Request) bool {
	for _, key := range [...]string{"Accept-Language", "Origin", "Referer", "Sec-Fetch-Site"} {
		if _, ok := r.Header[key]; ok {
			return true
		}
	}
	return strings.HasPrefix(r.Header.Get("User-Agent"), "Mozilla/")
}

// followsLink reports whether somebody clicked a link to the agent, which shows the answer to nobody else.
func followsLink(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func errForbidden(text string) error {
	return &httpError{code: api.CodeForbidden, name: "Forbidden", text: text}
}

// ErrNoToken is why a request that has no valid token is not answered.
var ErrNoToken = errors.New("no valid token")

func errUnauthorized(why error) error {
	text := "This address wants a token: Authorization: Bearer <token>."
	if !errors.Is(why, ErrNoToken) {
		text = fmt.Sprintf("Nobody is known to ask: %s.", why)
	}
	return &httpError{code: api.CodeUnauthorized, name: "Unauthorized", text: text, err: why}
}

func errRole(who Caller, role api.Roles) error {
	name := who.Name
	if name == "" {
		name = "the token"
	}
	return errForbidden(fmt.Sprintf("%s has the roles %s, and this needs %s", name, who.Roles, role))
}

// A Caller is who asks.
type Caller struct {
	Name  string // "" where nobody knows
	Roles api.Roles
}

type callerKey struct{}

// A known caller is one that Identify let in.
type known struct {
	Caller
	still func() bool // whether it would be let in now
}

// caller returns who asks. Everybody may ask at the open address.
func caller(r *http.Request) Caller {
	if who, ok := r.Context().Value(callerKey{}).(known); ok {
		return who.Caller
	}
	return Caller{Roles: api.DefaultRoles}
}

// stillKnown reports whether who asked may still be answered, which matters to a request without an end.
func stillKnown(r *http.Request) bool {
	who, ok := r.Context().Value(callerKey{}).(known)
	return !ok || who.still()
}

// Identify returns a handler of the same API that answers those only whom it knows, and does for each what they may. It asks
// who it is for each request, and for a stream at each heartbeat.
func (s *Server) Identify(who func(*http.Request) (Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, err := who(r)
		switch {
		case isPage(r.URL.Path): // it holds nothing, and asks for the token
			err = nil
		case err == nil:
			asked := r
			still := func() bool { _, err := who(asked); return err == nil }
			r = r.WithContext(context.WithValue(r.Context(), callerKey{}, known{by, still}))
		}
		s.serve(w, r, func() error {
			if err == nil {
				return nil
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="mux-agent"`)
			return errUnauthorized(err)
		})
	})
}
