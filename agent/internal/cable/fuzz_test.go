package cable

import (
	"testing"
)

// Natural order is an order: of two names one is the first, and equal are only names that are the same.
func FuzzNaturalCompare(f *testing.F) {
	f.Add("vlab-9", "vlab-10", "vlab-010")
	f.Add("p0.999", "p0.1000", "p0")
	f.Add("", "0", "00")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		ab, ba, bc, ac := naturalCompare(a, b), naturalCompare(b, a), naturalCompare(b, c), naturalCompare(a, c)
		if ab != -ba {
			t.Errorf("%q and %q: %d one way, %d the other", a, b, ab, ba)
		}
		if (ab == 0) != (a == b) {
			t.Errorf("%q and %q: %d", a, b, ab)
		}
		if ab <= 0 && bc <= 0 && ac > 0 {
			t.Errorf("%q, %q and %q are in no order", a, b, c)
		}
	})
}
