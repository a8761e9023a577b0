package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// The cases of testdata/queries.json, which the page's tests read too.
func TestPortQueries(t *testing.T) {
	text, err := os.ReadFile("testdata/queries.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		VMSet string `json:"vm_set"`
		Muxes []struct {
			PortIndex  int      `json:"port_index"`
			ActiveSide string   `json:"active_side"`
			Healthy    bool     `json:"healthy"`
			Dropped    []string `json:"dropped"`
			NIC        string   `json:"nic"`
			UpperToR   string   `json:"upper_tor"`
			LowerToR   string   `json:"lower_tor"`
		} `json:"muxes"`
		Cases []struct {
			Query   string `json:"query"`
			Ports   []int  `json:"ports"`
			Refused string `json:"refused"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	muxes := api.Muxes{}
	for _, m := range table.Muxes {
		bridge := fmt.Sprintf("mbr-%s-%d", table.VMSet, m.PortIndex)
		muxes[bridge] = api.Status{
			Bridge: bridge, PortIndex: m.PortIndex, ActiveSide: m.ActiveSide, Healthy: m.Healthy, Dropped: m.Dropped,
			Ports: api.Ports{NIC: m.NIC, UpperToR: m.UpperToR, LowerToR: m.LowerToR},
		}
	}
	if len(table.Cases) < 30 {
		t.Errorf("%d cases were read, want all", len(table.Cases))
	}
	for _, c := range table.Cases {
		var picked []api.Status
		q, err := api.ParsePortQuery(c.Query)
		if err == nil {
			picked, err = q.Pick(muxes)
		}
		if c.Ports == nil {
			if err == nil || !strings.Contains(err.Error(), c.Refused) {
				t.Errorf("%q picks %d ports, %v; want an error with %q", c.Query, len(picked), err, c.Refused)
			}
			continue
		}
		got := []int{}
		for _, s := range picked {
			got = append(got, s.PortIndex)
		}
		if diff := cmp.Diff(c.Ports, got); err != nil || diff != "" {
			t.Errorf("%q, %v, picks (-want +got):\n%s", c.Query, err, diff)
		}
	}
}

// What is one request for all ports, and what needs no look at the ports.
func TestPortQueriesOfAllAndOfIndexes(t *testing.T) {
	for text, want := range map[string]struct {
		all     bool
		indexes string
	}{
		"all":        {true, ""},
		"all,3":      {false, ""},
		"all upper":  {false, ""},
		"3,0-2,1":    {false, "0-3"},
		"3,upper":    {false, ""},
		"3 0-9":      {false, ""},
		"upper":      {false, ""},
		"mbr-vms1-3": {false, ""},
	} {
		q, err := api.ParsePortQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		list, ok := q.Indexes()
		if q.All() != want.all || ok != (want.indexes != "") || ok && list.String() != want.indexes {
			t.Errorf("%q: all %v, indexes %v %v; want %+v", text, q.All(), list, ok, want)
		}
	}
}

func FuzzParsePortQuery(f *testing.F) {
	f.Add("0-11,20 unhealthy")
	f.Add(" , -")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := api.ParsePortQuery(text)
		if err != nil {
			return
		}
		list, ok := q.Indexes()
		if again, err := api.ParsePortQuery(list.String()); ok && err == nil {
			if same, _ := again.Indexes(); !cmp.Equal(list, same) {
				t.Errorf("%q is %v, and that is %v", text, list, same)
			}
		}
		picked, err := q.Pick(api.Muxes{"mbr-a-0": {Bridge: "mbr-a-0"}})
		if ok && err == nil && (len(list) != 1 || len(picked) != 1) {
			t.Errorf("%q is the ports %v, and picks %d of the only one", text, list, len(picked))
		}
	})
}
