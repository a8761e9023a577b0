package httpapi

import (
	"fmt"
	"net"
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

// allow reports whether a Host header is one of ours. An address can't be rebound, nor can a name without a dot, such as
// localhost, which no stranger can own; an HTTP/1.0 client sends none.
func (h *hosts) allow(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		name = host[:i]
	}
	if !strings.Contains(name, ".") && !strings.Contains(name, ":") {
		return true
	}
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if h.names[name] || strings.HasSuffix(name, ".localhost") {
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
	if from := r.Header["Sec-Fetch-Site"]; len(from) > 0 && from[0] != "same-origin" && from[0] != "none" && !followsLink(r) {
		return errForbidden("pages of other sites may not use the agent")
	}
	if from := r.Header["Origin"]; len(from) > 0 && !sameOrigin(from[0], r.Host) {
		return errForbidden(fmt.Sprintf("pages of %q may not use the agent", from[0]))
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

// sameOrigin reports whether an Origin header names the host of the request. The scheme may be that of a proxy.
func sameOrigin(origin, host string) bool {
	scheme, at, ok := strings.Cut(origin, "://")
	if !ok {
		return false // "null" among others
	}
	port := map[string]string{"http": "80", "https": "443"}[scheme]
	return port != "" && strings.EqualFold(withPort(at, port), withPort(host, port))
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return host + ":" + port
}

func errForbidden(text string) error {
	return &httpError{code: api.CodeForbidden, name: "Forbidden", text: text}
}

func errUnauthorized() error {
	return &httpError{
		code: api.CodeUnauthorized, name: "Unauthorized",
		text: "This address wants a token: Authorization: Bearer <token>.",
	}
}

// RequireToken returns a handler of the same API that answers those only who bring a token that is valid.
func (s *Server) RequireToken(valid func(token string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, func() error {
			if isPage(r.URL.Path) { // it holds nothing, and asks for the token
				return nil
			}
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if strings.EqualFold(scheme, "Bearer") && valid(strings.TrimSpace(token)) {
				return nil
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="mux-agent"`)
			return errUnauthorized()
		})
	})
}
