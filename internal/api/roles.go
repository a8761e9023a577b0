package api

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Roles are what a client may do. All but RoleRead are of their own: who may wire may not switch.
type Roles uint8

// The roles.
const (
	RoleRead   Roles = 1 << iota // look at everything
	RoleSwitch                   // change sides and drops, and read
	RoleFault                    // put faults on cables, and read
	RoleWire                     // make and remove cables
)

// DefaultRoles are those of whoever has no role by name: a token that is a line by itself, a certificate that no line
// names, and everybody at the open address.
const DefaultRoles = RoleRead | RoleSwitch | RoleFault

var roleNames = [...]struct {
	name  string
	roles Roles
}{
	{"read", RoleRead},
	{"switch", RoleSwitch | RoleRead},
	{"fault", RoleFault | RoleRead},
	{"wire", RoleWire},
}

// Has reports whether all of some roles are there.
func (r Roles) Has(want Roles) bool { return r&want == want }

// String lists the roles by name.
func (r Roles) String() string {
	var names []string
	for i, n := range roleNames {
		if r.Has(1 << i) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// parseRoles reads names that namedToken or certificates has matched.
func parseRoles(text []byte) Roles {
	var roles Roles
	for name := range bytes.SplitSeq(text, []byte{','}) {
		for _, n := range roleNames {
			if n.name == string(name) {
				roles |= n.roles
			}
		}
	}
	return roles
}

// A RouteRole says which role a route asks for.
type RouteRole struct {
	Method, Path string // as openapi.yaml has them
	Role         Roles  // 0 where everybody may
}

// routeRoles is the one table of roles by route. A HEAD asks for what its GET asks for; an OPTIONS and a path that is not there
// ask for nothing.
var routeRoles = [...]RouteRole{
	{http.MethodGet, "/", 0}, // the page's own files hold nothing, and ask for the token
	{http.MethodGet, "/assets/{asset}", 0},
	{http.MethodGet, PathHealthz, RoleRead},
	{http.MethodGet, PathReadyz, RoleRead},
	{http.MethodGet, PathVersion, RoleRead},
	{http.MethodGet, PathMetrics, RoleRead},
	{http.MethodGet, PathOpenAPI, RoleRead},
	{http.MethodGet, PathOverview, RoleRead},
	{http.MethodGet, "/mux/{vm_set}", RoleRead},
	{http.MethodPost, "/mux/{vm_set}", RoleSwitch},
	{http.MethodPatch, "/mux/{vm_set}", RoleSwitch},
	{http.MethodPost, "/mux/{vm_set}/{action}", RoleSwitch},
	{http.MethodPost, "/mux/{vm_set}/reset", RoleSwitch},
	{http.MethodPost, "/mux/{vm_set}/reload", RoleSwitch},
	{http.MethodPost, "/mux/{vm_set}/log", RoleSwitch},
	{http.MethodGet, "/mux/{vm_set}/flap_counter", RoleRead},
	{http.MethodPost, "/mux/{vm_set}/clear_flap_counter", RoleSwitch},
	{http.MethodGet, "/mux/{vm_set}/events", RoleRead},
	{http.MethodGet, "/mux/{vm_set}/history", RoleRead},
	{http.MethodGet, "/mux/{vm_set}/{port}", RoleRead},
	{http.MethodPost, "/mux/{vm_set}/{port}", RoleSwitch},
	{http.MethodGet, "/mux/{vm_set}/{port}/flap_counter", RoleRead},
	{http.MethodPost, "/mux/{vm_set}/{port}/flap_counter", RoleSwitch},
	{http.MethodGet, "/mux/{vm_set}/{port}/history", RoleRead},
	{http.MethodPost, "/mux/{vm_set}/{port}/history", RoleSwitch},
	{http.MethodPost, "/mux/{vm_set}/{port}/{action}", RoleSwitch},
}

// RouteRoles lists the roles of all routes.
func RouteRoles() []RouteRole { return slices.Clone(routeRoles[:]) }

var pathPattern = regexp.MustCompile(`\{([a-z_]+):[^}]*\}`)

// RoleOf returns the role that a route asks for. path is its template, in which a variable may have a pattern. ok is false
// where the table does not have the route.
func RoleOf(method, path string) (role Roles, ok bool) {
	path = pathPattern.ReplaceAllString(path, "{$1}")
	i := slices.IndexFunc(routeRoles[:], func(r RouteRole) bool { return r.Method == method && r.Path == path })
	if i < 0 {
		return 0, false
	}
	return routeRoles[i].Role, true
}

// A Token is one line of a token file.
type Token struct {
	Name        string // "" where the line is a token alone
	Roles       Roles
	Secret      []byte // nil where Certificate says who
	Certificate string // common name of a client certificate with these roles
}

// minToken is the shortest token that can't be guessed, in bytes.
const minToken = 16

var (
	namedToken   = regexp.MustCompile(`^([a-z0-9_-]{1,32}):((?:read|switch|fault|wire)(?:,(?:read|switch|fault|wire))*):(.{16,})$`)
	certificates = regexp.MustCompile(`^cn:([^:]{1,64}):((?:read|switch|fault|wire)(?:,(?:read|switch|fault|wire))*)$`)
	errNoToken   = errors.New("no token in it; make one with: openssl rand -hex 32")
)

// ParseTokens reads a token file: a line is a token, NAME:ROLES:TOKEN, or cn:NAME:ROLES for client certificates of that
// common name. Lines that start with # and empty ones are left out, as is the mark that some editors put before the first.
// The server and its clients, which send the first token of theirs, read it alike.
func ParseTokens(text []byte) ([]Token, error) {
	var list []Token
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	for n := 1; lines.Scan(); n++ {
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		token := Token{Roles: DefaultRoles, Secret: line}
		if m := namedToken.FindSubmatch(line); m != nil {
			token.Name, token.Secret = string(m[1]), m[3]
			token.Roles = parseRoles(m[2])
		} else if m := certificates.FindSubmatch(line); m != nil {
			token.Name, token.Secret, token.Certificate = string(m[1]), nil, string(m[1])
			token.Roles = parseRoles(m[2])
		} else if len(line) < minToken {
			return nil, fmt.Errorf("a token has %d bytes and needs %d; make one with: openssl rand -hex 32", len(line), minToken)
		}
		list = append(list, token)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errNoToken
	}
	return list, nil
}

// FirstToken returns what a client sends that has a token file.
func FirstToken(text []byte) (string, error) {
	list, err := ParseTokens(text)
	if err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Secret != nil {
			return string(t.Secret), nil
		}
	}
	return "", errNoToken
}
