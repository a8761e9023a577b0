package api

import (
	"fmt"
	"regexp"
	"strconv"
)

// maxVMSet is the longest vm_set with which "mb-<vm_set>-0" is still an interface name of 15 characters.
const maxVMSet = 10

var validVMSet = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// CheckVMSet returns an error that says what a vm_set looks like, nil when name is one.
func CheckVMSet(name string) error {
	if !validVMSet.MatchString(name) || len(name) > maxVMSet {
		return fmt.Errorf("bad vm_set %q: want 1 to %d letters, digits, '.', '_' or '-', such as \"vms17-8\"", name, maxVMSet)
	}
	return nil
}

// A BridgeName matches the names of a vm_set's bridges. The testbed shortens the leading word so that a name fits the 15
// characters of a Linux interface: mbr-vms21-1-121 and mb-vms121-1-121 are both bridges, of vms21-1 and vms121-1.
type BridgeName struct{ pattern *regexp.Regexp }

// NewBridgeName returns what matches the bridges of a vm_set; of any, where it is "".
func NewBridgeName(vmSet string) BridgeName {
	quoted := `.+`
	if vmSet != "" {
		quoted = regexp.QuoteMeta(vmSet)
	}
	return BridgeName{regexp.MustCompile(`^mb[A-Za-z0-9_.]*-` + quoted + `-([0-9]+)$`)}
}

// Index returns the port index of a bridge, and false when the bridge is not named as one of the vm_set. The match is exact:
// mbr-vms1-1-0 is a bridge of vms1-1 and not of vms1.
func (n BridgeName) Index(bridge string) (int, bool) {
	m := n.pattern.FindStringSubmatch(bridge)
	if m == nil {
		return 0, false
	}
	i, err := strconv.Atoi(m[1])
	return i, err == nil
}
