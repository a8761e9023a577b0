package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// addYes adds the flag that answers what confirm asks.
func (r *remote) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "change all ports without asking; without a terminal nobody is asked")
}

var errDeclined = errors.New("nothing was done; --yes answers beforehand")

// confirm asks the person at the terminal before what they may not have meant: a change of several ports that were not named
// by their indexes. Scripts, which have no terminal, are not asked.
func (r *remote) confirm(cmd *cobra.Command, what string, q api.PortQuery, ports int) error {
	in, isFile := cmd.InOrStdin().(*os.File)
	_, named := q.Indexes()
	if r.yes || named || ports < 2 || !isFile || !isTerminal(in) {
		return nil
	}
	which := fmt.Sprintf("%s, %d ports", q, ports)
	if q.All() {
		which = fmt.Sprintf("all %d ports", ports)
	}
	out := newScreen(cmd.ErrOrStderr())
	if err := out.printf("%s %s of %s at %s? [y/N] ", what, which, r.vmSet, r.endpoint); err != nil {
		return err
	}
	answer, _ := bufio.NewReader(in).ReadString('\n') // a terminal that is closed says no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
