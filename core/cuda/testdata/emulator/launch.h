// The end of an emulated program: calls kernels by name with parameters as cuLaunchKernel takes them.
typedef void (*Runner)(void** params);

template <class F, F f> struct Unpack;
template <class... A, void (*f)(A...)> struct Unpack<void (*)(A...), f> {
	template <std::size_t... I> static void go(void** p, std::index_sequence<I...>) { f(*(typename std::decay<A>::type*)p[I]...); }
	static void run(void** p) { go(p, std::index_sequence_for<A...>()); }
};

struct Entry { const char* name; Runner run; int barriers; };
extern Entry entries[];

static void** current_params;
static Runner current;
static bool finished[1024];
static void body() { current(current_params); finished[threadIdx.x] = true; }

static void with_barriers(unsigned threads) {
	static ucontext_t fibers[1024];
	static char* stacks = (char*)std::malloc(1024 * 65536);
	for (unsigned t = 0; t < threads; t++) {
		finished[t] = false;
		getcontext(&fibers[t]);
		fibers[t].uc_stack.ss_sp = stacks + t * 65536;
		fibers[t].uc_stack.ss_size = 65536;
		fibers[t].uc_link = &scheduler;
		makecontext(&fibers[t], body, 0);
	}
	for (unsigned left = threads; left > 0;) {
		left = 0;
		for (unsigned t = 0; t < threads; t++) {
			if (finished[t]) continue;
			threadIdx.x = t;
			fiber = &fibers[t];
			swapcontext(&scheduler, fiber);
			threadIdx.x = t;
			left += !finished[t];
		}
	}
}

extern "C" int emulator_launch(const char* name, unsigned gx, unsigned gy, unsigned gz, unsigned threads, void** params) {
	for (Entry* e = entries; e->name; e++) {
		if (std::strcmp(e->name, name)) continue;
		gridDim = {gx, gy, gz};
		blockDim = {threads, 1, 1};
		current = e->run;
		current_params = params;
		for (unsigned z = 0; z < gz; z++)
			for (unsigned y = 0; y < gy; y++)
				for (unsigned x = 0; x < gx; x++) {
					blockIdx = {x, y, z};
					if (e->barriers) with_barriers(threads);
					else
						for (unsigned t = 0; t < threads; t++) {
							threadIdx = {t, 0, 0};
							e->run(params);
						}
				}
		return 0;
	}
	return 1;
}

extern "C" int emulator_has(const char* name) {
	for (Entry* e = entries; e->name; e++)
		if (!std::strcmp(e->name, name)) return 0;
	return 1;
}
