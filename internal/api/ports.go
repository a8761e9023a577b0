package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A PortList is port indexes in ascending order.
type PortList []int

// maxPort bounds a range, so that a slip of the finger is not a list of a billion.
const maxPort = 99_999

// ParsePort reads one port index.
func ParsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 32)
	if err != nil || port > maxPort {
		return 0, fmt.Errorf("bad port %q: want an index such as 3", text)
	}
	return int(port), nil
}

// String writes a list as ParsePortQuery reads it.
func (l PortList) String() string {
	var parts []string
	for i := 0; i < len(l); {
		j := i
		for j+1 < len(l) && l[j+1] == l[j]+1 {
			j++
		}
		part := strconv.Itoa(l[i])
		if j > i {
			part += "-" + strconv.Itoa(l[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Has reports whether a port is in the list.
func (l PortList) Has(port int) bool {
	_, found := slices.BinarySearch(l, port)
	return found
}

// DroppedSides returns the set of NIC, UpperToR and LowerToR to which somebody asked that nothing passes. Where the service
// doesn't tell, as mux_simulator.py and agents before 0.2.0 don't, it is what the flows let nothing pass to.
func (s *Status) DroppedSides() []string {
	if s.Dropped != nil {
		return s.Dropped
	}
	passes := func(from, to string) bool {
		return slices.ContainsFunc(s.Flows[from], func(a Action) bool { return a.OutPort == to })
	}
	dropped := []string{}
	if !passes(s.ActivePort, s.Ports.NIC) {
		dropped = append(dropped, NIC)
	}
	if !passes(s.Ports.NIC, s.Ports.UpperToR) {
		dropped = append(dropped, UpperToR)
	}
	if !passes(s.Ports.NIC, s.Ports.LowerToR) {
		dropped = append(dropped, LowerToR)
	}
	return dropped
}
