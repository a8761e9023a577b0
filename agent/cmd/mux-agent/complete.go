package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// completionPatience is how long a shell waits for an agent when somebody presses TAB.
const completionPatience = time.Second

// completePorts offers ports for the first argument of a command, and sides for those behind it. It never offers all: one TAB and
// Enter would switch a whole testbed.
func completePorts(r *remote, sides ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return slices.DeleteFunc(slices.Clone(sides), func(side string) bool { return slices.Contains(args[1:], side) }), cobra.ShellCompDirectiveNoFileComp
		}
		before := text[:strings.LastIndexByte(text, ',')+1]
		listed := strings.Split(before, ",")
		var offered []string
		offer := func(word, about string) {
			if strings.HasPrefix(word, text[len(before):]) && !slices.Contains(listed, word) {
				offered = append(offered, before+word+"\t"+about)
			}
		}
		for _, s := range r.glance(cmd) {
			offer(strconv.Itoa(s.index), s.about)
		}
		for _, word := range [][2]string{
			{"upper", "ports whose active side is the upper ToR"},
			{"lower", "ports whose active side is the lower ToR"},
			{"unhealthy", "ports that are not healthy"},
			{"dropped", "ports of which something is dropped"},
		} {
			offer(word[0], word[1])
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// A glimpse is what a shell shows beside a port.
type glimpse struct {
	index int
	about string
}

// glance asks the agent for its ports. Who completes a line wants no errors: without an answer there are none.
func (r *remote) glance(cmd *cobra.Command) []glimpse {
	ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
	defer cancel()
	r.timeout = completionPatience
	if cmd.PreRunE(cmd, nil) != nil || r.connect(ctx) != nil {
		return nil
	}
	defer r.client.Close()
	muxes, err := r.client.All(ctx, r.vmSet)
	if err != nil {
		return nil
	}
	var ports []glimpse
	for _, s := range byPort(muxes) {
		about := describe(s)
		if len(conditionsOf(s)) > 0 {
			about += ", " + conditionsOf(s)[0].Code
		}
		ports = append(ports, glimpse{s.PortIndex, api.Printable(about)}) // a shell prints it as it is
	}
	return ports
}

// completeVMSets offers what the agent serves.
func completeVMSets(r *remote) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
		defer cancel()
		r.timeout, r.vmSet = completionPatience, "none" // so that connect asks nobody
		if cmd.PreRunE(cmd, nil) != nil || r.connect(ctx) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer r.client.Close()
		overview, err := r.client.Overview(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := slices.Sorted(maps.Keys(overview.VMSets))
		return slices.DeleteFunc(names, func(name string) bool { return api.CheckVMSet(name) != nil }), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag offers words for a flag.
func completeFlag(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(fmt.Sprintf("%s: %v", flag, err)) // there is no such flag
	}
}
