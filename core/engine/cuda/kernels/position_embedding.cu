// Learned positions: a table that is added to every sample.

KERNEL position_embedding(const elem* x, const elem* table, u32 sample, elem* y, u32 n) {
	each(i, n) store(y, i, load(x, i) + load(table, i % sample));
}

// position_embedding_grad writes zeros for rows that no position uses.
KERNEL position_embedding_grad(const elem* dy, int samples, u32 sample, void* dtable, int type, int add, u32 n) {
	each(i, n) {
		acc sum = 0;
		if (i < sample)
			for (int s = 0; s < samples; s++) sum += load(dy, (i64)s * sample + i);
		store_grad(dtable, type, i, sum, add);
	}
}
