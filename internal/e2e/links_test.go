package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	strange = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	// inCode is a path of this repository in backquotes, with a folder.
	inCode = regexp.MustCompile("`((?:agent|internal|provider|examples|docs)/[\\w./-]+)`")
)

// Each link between the pages leads somewhere, also to a heading, and each path that they name is there.
func TestLinksOfTheDocumentation(t *testing.T) {
	const root = "../.."
	pages := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || name == "dist" || name == "bin" || name == "provider/templates") {
			return filepath.SkipDir // templates are relative to where their pages land
		}
		if d.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		pages++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			checkLink(t, path, name, found[1])
		}
		if name == "CHANGELOG.md" {
			return nil // it may name what is gone
		}
		for _, found := range inCode.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
				t.Errorf("%s: there is no %s", name, found[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 20 {
		t.Errorf("%d pages were read, want all", pages)
	}
}

func checkLink(t *testing.T, path, name, target string) {
	t.Helper()
	if strings.Contains(target, "://") {
		return
	}
	file, anchor, _ := strings.Cut(target, "#")
	if file == "" {
		file = path
	} else {
		file = filepath.Join(filepath.Dir(path), file)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Errorf("%s: the link to %s leads nowhere", name, target)
		return
	}
	if anchor == "" || info.IsDir() {
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		if slug(found[1]) == anchor {
			return
		}
	}
	if !strings.Contains(string(text), `id="`+anchor+`"`) {
		t.Errorf("%s: %s has no heading #%s", name, file, anchor)
	}
}

// slug is the anchor of a heading, as GitHub makes it.
func slug(heading string) string {
	return strings.ReplaceAll(strings.ToLower(strange.ReplaceAllString(heading, "")), " ", "-")
}
