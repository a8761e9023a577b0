package api

import (
	"fmt"
	"slices"
	"strings"
)

// A PortQuery names ports of a vm_set, as the command line takes them and the page's search finds them. Terms with a comma
// between them name the ports of each; terms with a blank between them name the ports that all of them name:
//
//	3            the port of this index
//	0-11,20      the ports of a range, and another one
//	upper        those whose active side is the upper ToR; lower likewise
//	unhealthy    those that are not healthy
//	dropped      those of which something is dropped
//	all          all of them
//	enp59s0f1.3  the port that has a bridge or an interface of this name
//
// testdata/queries.json has cases, which the tests of the page read as well.
type PortQuery struct {
	text    string
	narrows [][]portTerm // a port must be named by a term of each
}

// A portTerm is one of the terms of a query.
type portTerm struct {
	text     string
	isRange  bool // then from and to are its ends
	from, to int
}

// portWords are the terms that name ports by what they do.
var portWords = map[string]func(*Status) bool{
	"all":       func(*Status) bool { return true },
	"upper":     func(s *Status) bool { return s.ActiveSide == UpperToR },
	"lower":     func(s *Status) bool { return s.ActiveSide == LowerToR },
	"unhealthy": func(s *Status) bool { return !s.Healthy },
	"dropped":   func(s *Status) bool { return len(s.DroppedSides()) > 0 },
}

// PortWords lists the words that stand for ports by what they do, but for all.
func PortWords() []string { return []string{"upper", "lower", "unhealthy", "dropped"} }

// ParsePortQuery reads a query. Whether there are ports of the names in it, Pick tells.
func ParsePortQuery(text string) (PortQuery, error) {
	q := PortQuery{text: text}
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	for narrow := range strings.FieldsSeq(strings.Join(parts, ",")) {
		var terms []portTerm
		for word := range strings.SplitSeq(narrow, ",") {
			term, err := parsePortTerm(word)
			if err != nil {
				return PortQuery{}, err
			}
			terms = append(terms, term)
		}
		q.narrows = append(q.narrows, terms)
	}
	if q.narrows == nil {
		return PortQuery{}, errBadPorts(text)
	}
	return q, nil
}

func errBadPorts(text string) error {
	return fmt.Errorf("bad ports %q: want indexes and ranges such as 0-11,20, or %s, or all, or the name of a bridge or an interface",
		text, strings.Join(PortWords(), ", "))
}

func parsePortTerm(word string) (portTerm, error) {
	term := portTerm{text: word}
	if strings.Trim(word, "0123456789-") != "" {
		return term, nil
	}
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	from, err1 := ParsePort(first)
	to, err2 := ParsePort(last)
	if err1 != nil || err2 != nil || from > to {
		return term, errBadPorts(word)
	}
	return portTerm{word, true, from, to}, nil
}

// String returns the query as it was written.
func (q PortQuery) String() string { return q.text }

// All reports whether the query is all ports, whichever there are.
func (q PortQuery) All() bool {
	return len(q.narrows) == 1 && len(q.narrows[0]) == 1 && q.narrows[0][0].text == "all"
}

// Indexes returns the ports of a query that names them by their indexes alone. ok is false for any other.
func (q PortQuery) Indexes() (list PortList, ok bool) {
	if len(q.narrows) != 1 {
		return nil, false
	}
	list = PortList{}
	for _, term := range q.narrows[0] {
		if !term.isRange {
			return nil, false
		}
		for port := term.from; port <= term.to; port++ {
			list = append(list, port)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), true
}

// Pick returns the muxes that a query names, by their index. An index or a name that no mux has is an error.
func (q PortQuery) Pick(muxes Muxes) ([]Status, error) {
	ports := make([]Status, 0, len(muxes))
	for _, s := range muxes {
		ports = append(ports, s)
	}
	slices.SortFunc(ports, func(a, b Status) int { return a.PortIndex - b.PortIndex })
	for _, terms := range q.narrows {
		named := map[int]bool{}
		for _, term := range terms {
			if err := term.name(ports, muxes, named); err != nil {
				return nil, err
			}
		}
		ports = slices.DeleteFunc(slices.Clone(ports), func(s Status) bool { return !named[s.PortIndex] })
	}
	return ports, nil
}

// name marks the ports that a term names. It is looked up among all muxes, so that a name is known to those that another
// term has left out.
func (t portTerm) name(ports []Status, muxes Muxes, named map[int]bool) error {
	if t.isRange {
		missing := map[int]bool{}
		for port := t.from; port <= t.to; port++ {
			missing[port], named[port] = true, true
		}
		for _, s := range muxes {
			delete(missing, s.PortIndex)
		}
		if len(missing) == 0 {
			return nil
		}
		list := PortList{}
		for port := range missing {
			list = append(list, port)
		}
		slices.Sort(list)
		return fmt.Errorf("there is no port %s", list)
	}
	if fits, ok := portWords[t.text]; ok {
		for i := range ports {
			if fits(&ports[i]) {
				named[ports[i].PortIndex] = true
			}
		}
		return nil
	}
	for _, s := range muxes {
		if slices.Contains([]string{s.Bridge, s.Ports.NIC, s.Ports.UpperToR, s.Ports.LowerToR}, t.text) {
			named[s.PortIndex] = true
			return nil
		}
	}
	return fmt.Errorf("%q is neither an index, nor one of %s, nor the name of a bridge or an interface that is served",
		t.text, strings.Join(PortWords(), ", "))
}
