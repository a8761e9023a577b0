package provider

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Keys of the private state. Terraform hands it to a plan, and never to what replaces a tainted object, so nothing is here
// that must survive.
const (
	keyNotes = "notes"
	// Version 0.1.0 kept the originals here, and the list of imported ports.
	keyOldOriginals = "originals"
	keyOldImported  = "imported"
)

// A note is what a resource remembers of a port beside its state.
type note struct {
	// Imported is true while nobody has said whether the drops that an import found are managed: then a configuration without
	// them must plan nothing.
	Imported bool `json:"imported,omitempty"`
	// Heals is true when the last read found the port unhealthy and a write heals it.
	Heals bool `json:"heals,omitempty"`
	// Unset is true while the state shows what the port should be since it could not be set.
	Unset bool `json:"unset,omitempty"`
	// Unsure is true while nobody knows whether the last write has changed the port, so that the next read has to look.
	Unsure bool `json:"unsure,omitempty"`
	// Applied is what was written last, where a read has since found the port otherwise.
	Applied *original `json:"applied,omitempty"`
}

// original is how a port was at some time.
type original struct {
	ActiveSide string   `json:"active_side"`
	Dropped    []string `json:"dropped"` // nil where drops are not managed
}

func originalOf(s api.Status) original {
	return original{ActiveSide: s.ActiveSide, Dropped: droppedSides(s)}
}

func (o original) settings() portSettings {
	s := portSettings{ActiveSide: types.StringValue(o.ActiveSide), Dropped: types.SetNull(types.StringType)}
	if o.Dropped != nil {
		s.Dropped = sidesValue(o.Dropped)
	}
	return s
}

// appliedOf is the reverse of settings.
func appliedOf(s portSettings) *original {
	o := &original{ActiveSide: s.ActiveSide.ValueString()}
	if d := s.desired().Dropped; d != nil {
		o.Dropped = *d
	}
	return o
}

// privateReader and privateWriter are the private state of a resource, of which a plan can only read.
type (
	privateReader interface {
		GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	}
	privateWriter interface {
		SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
	}
)

// loadNotes returns the notes, and the originals where version 0.1.0 has written the private state.
func loadNotes(ctx context.Context, p privateReader) (notes map[int]note, old map[int]original, diags diag.Diagnostics) {
	notes = map[int]note{}
	var imported []int
	for key, to := range map[string]any{keyNotes: &notes, keyOldOriginals: &old, keyOldImported: &imported} {
		b, keyDiags := p.GetKey(ctx, key)
		diags.Append(keyDiags...)
		if b == nil || keyDiags.HasError() {
			continue
		}
		if err := json.Unmarshal(b, to); err != nil {
			diags.AddError("Cannot read the private state", key+": "+sentence(err))
		}
	}
	for _, port := range imported {
		n := notes[port]
		n.Imported = true
		notes[port] = n
	}
	return notes, old, diags
}

// saveNotes keeps the notes. What version 0.1.0 had beside them is by now in the state or in the notes.
func saveNotes(ctx context.Context, p privateWriter, notes map[int]note) diag.Diagnostics {
	kept := map[int]note{}
	for port, n := range notes {
		if n != (note{}) {
			kept[port] = n
		}
	}
	var value []byte // removes the key
	if len(kept) > 0 {
		var err error
		if value, err = json.Marshal(kept); err != nil {
			return diag.Diagnostics{diag.NewErrorDiagnostic("Cannot write the private state", sentence(err))}
		}
	}
	diags := p.SetKey(ctx, keyNotes, value)
	diags.Append(p.SetKey(ctx, keyOldOriginals, nil)...)
	diags.Append(p.SetKey(ctx, keyOldImported, nil)...)
	return diags
}
