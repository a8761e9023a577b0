package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newDocs makes what the packages ship beside the binary.
func newDocs() *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "Write the man pages and the shells' completions into a directory",
		Args:   usageArgs(cobra.ExactArgs(1)),
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return writeDocs(cmd.Root(), args[0]) },
	}
}

// writeDocs fills dir with man/*.8 and with completions/, a file for each shell, named as the shell wants it.
func writeDocs(root *cobra.Command, dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for _, c := range root.Commands() {
		c.Hidden = c.Hidden || c.Name() == "completion" // five pages that nobody needs
	}
	root.DisableAutoGenTag = true // it would have the day of the build in every page
	header := &doc.GenManHeader{Section: "8", Source: "mux-agent " + version, Manual: "mux-agent"}
	if err := doc.GenManTree(root, header, man); err != nil {
		return err
	}
	if err := root.GenBashCompletionFileV2(filepath.Join(completions, "mux-agent"), true); err != nil {
		return err
	}
	if err := root.GenZshCompletionFile(filepath.Join(completions, "_mux-agent")); err != nil {
		return err
	}
	return root.GenFishCompletionFile(filepath.Join(completions, "mux-agent.fish"), true)
}
