package tcp

import "context"

func (b *Backend) fit(ctx context.Context) error { return nil }
