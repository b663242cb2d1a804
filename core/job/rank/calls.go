package rank

import (
	"context"
	"fmt"
)

// Set implements Store.
func (c *Client) Set(ctx context.Context, key string, val []byte) error {
	_, err := c.call(ctx, Progress{Op: "set", Key: key}, opSet, fields{}.text(key).bytes(val))
	return err
}

// Get implements Store.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	p, err := c.call(ctx, Progress{Op: "get", Key: key}, opGet, fields{}.text(key))
	if err != nil {
		return nil, err
	}
	val := p.bytes()
	return val, p.end()
}

// Add implements Store.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	p, err := c.call(ctx, Progress{Op: "add", Key: key}, opAdd, fields{}.text(key).number(delta))
	if err != nil {
		return 0, err
	}
	sum := p.number()
	return sum, p.end()
}

// Wait implements Store.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	list := make([][]byte, len(keys))
	for i, k := range keys {
		list[i] = []byte(k)
	}
	_, err := c.call(ctx, Progress{Op: "wait", Key: fmt.Sprint(keys)}, opWait, fields{}.list(list))
	return err
}

// CompareAndSet implements Store.
func (c *Client) CompareAndSet(ctx context.Context, key string, old, val []byte) ([]byte, bool, error) {
	p, err := c.call(ctx, Progress{Op: "compare-and-set", Key: key}, opCompareAndSet, fields{}.text(key).bytes(old).bytes(val))
	if err != nil {
		return nil, false, err
	}
	now, swapped := p.bytes(), p.flag()
	return now, swapped, p.end()
}

// Delete implements Store.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	p, err := c.call(ctx, Progress{Op: "delete", Key: key}, opDelete, fields{}.text(key))
	if err != nil {
		return false, err
	}
	there := p.flag()
	return there, p.end()
}

// Gather implements Store.
func (c *Client) Gather(ctx context.Context, name string, rank, size int, mine []byte) ([][]byte, error) {
	round := fmt.Sprintf("%s#%d", name, c.nextRound(name))
	body := fields{}.text(round).number(int64(rank)).number(int64(size)).bytes(mine)
	p, err := c.call(ctx, Progress{Op: "gather", Key: name}, opGather, body)
	if err != nil {
		return nil, err
	}
	all := p.list()
	if err := p.end(); err != nil {
		return nil, err
	}
	if len(all) != size {
		return nil, fmt.Errorf("gather %q: %d of %d values: %w", name, len(all), size, errFrame)
	}
	return all, nil
}

func (c *Client) nextRound(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds[name]++
	return c.rounds[name]
}

// Barrier implements Store.
func (c *Client) Barrier(ctx context.Context, name string, rank, size int) error {
	_, err := c.Gather(ctx, "barrier/"+name, rank, size, nil)
	return err
}

var _ Store = (*Client)(nil)
