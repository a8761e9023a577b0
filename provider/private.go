package provider

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// Keys of the private state.
const (
	// keyOriginals holds each port as it was before the resource's first write to it, for on_destroy.
	keyOriginals = "originals"
	// keyImported lists the ports whose drops in the state come from an import: then nobody has said yet whether they are
	// managed, and a configuration without them must plan nothing.
	keyImported = "imported"
)

// privateReader and privateWriter are the private state of a resource, of which a plan can only read.
type (
	privateReader interface {
		GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	}
	privateWriter interface {
		SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
	}
)

// original is a port before Terraform touched it.
type original struct {
	ActiveSide string   `json:"active_side"`
	Dropped    []string `json:"dropped"`
}

func originalOf(s api.Status) original {
	return original{ActiveSide: s.ActiveSide, Dropped: droppedSides(s)}
}

func saveOriginals(ctx context.Context, p privateWriter, was map[int]original) diag.Diagnostics {
	return save(ctx, p, keyOriginals, was)
}

// loadOriginals returns nothing for ports that were imported.
func loadOriginals(ctx context.Context, p privateReader) (map[int]original, diag.Diagnostics) {
	was := map[int]original{}
	diags := load(ctx, p, keyOriginals, &was)
	return was, diags
}

// saveImported keeps the ports whose drops nobody has decided about.
func saveImported(ctx context.Context, p privateWriter, ports []int) diag.Diagnostics {
	slices.Sort(ports)
	return save(ctx, p, keyImported, ports)
}

func loadImported(ctx context.Context, p privateReader) ([]int, diag.Diagnostics) {
	var ports []int
	diags := load(ctx, p, keyImported, &ports)
	return ports, diags
}

func save(ctx context.Context, p privateWriter, key string, v any) diag.Diagnostics {
	b, err := json.Marshal(v)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Cannot write the private state", key+": "+sentence(err))}
	}
	return p.SetKey(ctx, key, b)
}

func load(ctx context.Context, p privateReader, key string, v any) diag.Diagnostics {
	b, diags := p.GetKey(ctx, key)
	if b == nil || diags.HasError() {
		return diags
	}
	if err := json.Unmarshal(b, v); err != nil {
		diags.AddError("Cannot read the private state", key+": "+sentence(err))
	}
	return diags
}
