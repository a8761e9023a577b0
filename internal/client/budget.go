package client

import (
	"context"
	"fmt"
	"time"
)

// A budget is the time that all calls of one operation have together.
type budget struct {
	whole time.Duration
	end   time.Time
}

type budgetKey struct{}

// WithBudget gives all calls that get ctx the time d together, from now on, in place of Config.MaxElapsed for each of them.
func WithBudget(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{whole: d, end: time.Now().Add(d)})
}

// withoutBudget gives calls their own time again.
func withoutBudget(ctx context.Context) context.Context {
	return context.WithValue(ctx, budgetKey{}, (*budget)(nil))
}

// budgetOf returns the budget of an operation, nil where its calls have their own.
func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// wholeOf returns the time that an operation has for all its calls, 0 where its calls have their own.
func wholeOf(ctx context.Context) time.Duration {
	if b := budgetOf(ctx); b != nil {
		return b.whole
	}
	return 0
}

// time returns how long a call with ctx may take, all its tries together, and when that ends.
func (c *Client) time(ctx context.Context) (left time.Duration, end time.Time) {
	if b := budgetOf(ctx); b != nil {
		return time.Until(b.end), b.end
	}
	return c.cfg.MaxElapsed, time.Now().Add(c.cfg.MaxElapsed)
}

// spent is why a call ends whose time is over.
func (c *Client) spent(ctx context.Context) error {
	if b := budgetOf(ctx); b != nil {
		return fmt.Errorf("%w within the %s for all requests of the operation", errNoAnswer, b.whole)
	}
	return fmt.Errorf("%w within the %s for all tries", errNoAnswer, c.cfg.MaxElapsed)
}
