package httpapi

import (
	"maps"
	"slices"
)

// Routes returns the methods of each path, for the comparison with the OpenAPI document.
func Routes() map[string][]string {
	routes := map[string][]string{}
	for _, r := range new(Server).routes() {
		routes[r.path] = slices.Collect(maps.Keys(r.methods))
	}
	return routes
}
