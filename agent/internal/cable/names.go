package cable

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Names holds what a vm_set's bridges and ports are called.
type Names struct {
	vmSet  string
	bridge api.BridgeName
}

// NewNames returns the names of vmSet, or an error that says what a vm_set looks like.
func NewNames(vmSet string) (*Names, error) {
	if err := api.CheckVMSet(vmSet); err != nil {
		return nil, err
	}
	return &Names{vmSet: vmSet, bridge: api.NewBridgeName(vmSet)}, nil
}

// VMSet returns the vm_set.
func (n *Names) VMSet() string { return n.vmSet }

// Index returns the port index of a bridge, and false when the bridge is not named as one of this vm_set.
func (n *Names) Index(bridge string) (int, bool) { return n.bridge.Index(bridge) }

// Bridge returns the name that the testbed gives the bridge of a port index.
func (n *Names) Bridge(index int) string { return n.adapt("mbr", index) }

// NIC returns the name that the testbed gives the NIC port of a port index.
func (n *Names) NIC(index int) string { return n.adapt("muxy", index) }

func (n *Names) adapt(word string, index int) string {
	tail := fmt.Sprintf("-%s-%d", n.vmSet, index)
	return word[:max(2, min(len(word), 15-len(tail)))] + tail
}

// Prefer orders two bridges of one port index: first the one that is named as the testbed names it, else by name. The first
// one that is a usable mux is served; see Taken.
func (n *Names) Prefer(a, b string) int {
	foreign := func(bridge string) int {
		if index, ok := n.Index(bridge); ok && bridge == n.Bridge(index) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(foreign(a), foreign(b)), cmp.Compare(a, b))
}

// Taken is why a bridge is not served whose port index another one has.
func Taken(index int, by string) *RejectionError {
	return &RejectionError{api.RejectedIndex, fmt.Sprintf("port index %d is served by bridge %s", index, by)}
}

// SideKey is the key in external_ids of a port or its interface that names its place on the cable, as ParseRole reads
// it. It wins over the name.
const SideKey = "mux-side"

// A Candidate is a port of a bridge that may be a mux.
type Candidate struct {
	Port
	Side   string // value of SideKey; "" when absent
	Mirror bool   // it is the output port of a mirror
}

// A RejectionError is why a bridge is not a usable mux.
type RejectionError struct {
	Code   string // as internal/api lists them
	Reason string
}

// Error returns the reason.
func (r *RejectionError) Error() string { return r.Reason }

// Identify tells the three ports of a bridge apart. The error is a *RejectionError: why the bridge is not a usable mux.
//
// Where SideKey doesn't say otherwise the NIC's name starts with "mu", and of the other two the upper ToR is first in
// natural order, in which vlab-9 comes before vlab-10. Of more than three ports those are the mux's that SideKey names, or
// that the flows use, if these are three.
func Identify(ports []Candidate, flows []Entry) (Ports, error) {
	var found Ports
	if len(ports) > len(found) {
		ports = three(ports, flows)
	}
	if len(ports) != len(found) {
		return found, &RejectionError{api.RejectedPorts, wrongNumber(ports)}
	}
	wrong := func(reason string, args ...any) (Ports, error) {
		return found, &RejectionError{api.RejectedSides, fmt.Errorf(reason, args...).Error()}
	}
	var placed Roles
	place := func(r Role, c Candidate) error {
		if placed.Has(r) {
			return fmt.Errorf("ports %s and %s both are %s", found[r].Name, c.Name, r)
		}
		placed |= RolesOf(r)
		found[r] = c.Port
		return nil
	}
	var rest []Candidate
	for _, c := range ports {
		if c.Side == "" {
			rest = append(rest, c)
			continue
		}
		r, err := ParseRole(c.Side)
		if err != nil {
			return wrong("port %s: external_ids:%s: %w", c.Name, SideKey, err)
		}
		if err := place(r, c); err != nil {
			return wrong("%w", err)
		}
	}
	var tors []Candidate
	mapped := placed.Has(NIC)
	for _, c := range rest {
		if mapped || !strings.HasPrefix(c.Name, "mu") {
			tors = append(tors, c)
			continue
		}
		if err := place(NIC, c); err != nil {
			return wrong("%w", err)
		}
	}
	if !placed.Has(NIC) {
		return wrong("no NIC: none of its ports (%s) has a name that starts with \"mu\"", candidateNames(ports))
	}
	slices.SortFunc(tors, func(a, b Candidate) int { return naturalCompare(a.Name, b.Name) })
	for _, c := range tors {
		r := Upper
		if placed.Has(Upper) {
			r = Lower
		}
		if err := place(r, c); err != nil {
			return wrong("%w", err)
		}
	}
	return found, nil
}

// three returns those of many ports that are a mux's, all of them where nothing tells.
func three(ports []Candidate, flows []Entry) []Candidate {
	named := slices.DeleteFunc(slices.Clone(ports), func(c Candidate) bool { return c.Side == "" })
	if len(named) == int(numRoles) {
		return named
	}
	lives := func(number uint32) bool {
		return slices.ContainsFunc(ports, func(c Candidate) bool { return c.Number == number })
	}
	uses := func(c Candidate) bool {
		return c.Number != 0 && slices.ContainsFunc(flows, func(e Entry) bool {
			return e.plain() && (e.InPort == c.Number || slices.Contains(e.outs(), c.Number))
		})
	}
	used := slices.DeleteFunc(slices.Clone(ports), func(c Candidate) bool { return !uses(c) })
	if len(used) == int(numRoles) {
		return used
	}
	// A flow that names a port which is no more, or a placeholder, stands for a port that is missing.
	stands := slices.ContainsFunc(flows, func(e Entry) bool {
		_, _, held := e.held()
		gone := func(number uint32) bool { return !lives(number) }
		return held || e.plain() && (gone(e.InPort) || slices.ContainsFunc(e.outs(), gone))
	})
	if !stands {
		return ports
	}
	for _, c := range ports {
		if c.Number == 0 {
			used = append(used, c)
		}
	}
	if len(used) == int(numRoles) {
		return used
	}
	return ports
}

// wrongNumber is why a bridge with more or fewer ports than three is not a usable mux.
func wrongNumber(ports []Candidate) string {
	reasons := []string{fmt.Sprintf("it has %d ports (%s), a mux has 3", len(ports), candidateNames(ports))}
	for _, c := range ports {
		if c.Mirror {
			reasons = append(reasons, c.Name+" is the output port of a mirror")
		}
	}
	if len(ports) > int(numRoles) {
		reasons = append(reasons, "say which three by external_ids:"+SideKey+" of their interfaces")
	}
	return strings.Join(reasons, "; ")
}

func candidateNames(ports []Candidate) string {
	names := make([]string, len(ports))
	for i, c := range ports {
		names[i] = c.Name
	}
	slices.SortFunc(names, naturalCompare)
	return strings.Join(names, ", ")
}

// naturalCompare orders runs of digits by their value and everything else by its bytes.
func naturalCompare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		var cx, cy string
		cx, x = chunk(x)
		cy, y = chunk(y)
		if isDigit(cx[0]) && isDigit(cy[0]) {
			tx, ty := strings.TrimLeft(cx, "0"), strings.TrimLeft(cy, "0")
			if c := cmp.Or(cmp.Compare(len(tx), len(ty)), strings.Compare(tx, ty)); c != 0 {
				return c
			}
			continue
		}
		if c := strings.Compare(cx, cy); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// chunk cuts the leading run of digits, or of anything else, off s.
func chunk(s string) (head, tail string) {
	digits := isDigit(s[0])
	for i := range len(s) {
		if isDigit(s[i]) != digits {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
