// The end of an emulated program: calls kernels by name with parameters as cuLaunchKernel takes them.
typedef void (*Runner)(void** params);

template <class F, F f> struct Unpack;
template <class... A, void (*f)(A...)> struct Unpack<void (*)(A...), f> {
	template <std::size_t... I> static void go(void** p, std::index_sequence<I...>) { f(*(typename std::decay<A>::type*)p[I]...); }
	static void run(void** p) { go(p, std::index_sequence_for<A...>()); }
	template <class T> static void* copy(void* p) { return std::memcpy(std::malloc(sizeof(T)), p, sizeof(T)); }
	template <std::size_t... I> static void** copies(void** p, std::index_sequence<I...>) {
		void** all = (void**)std::calloc(sizeof...(A) + 1, sizeof(void*));
		((all[I] = copy<typename std::decay<A>::type>(p[I])), ...);
		return all;
	}
	// keep copies the parameters, as cuLaunchKernel does before it returns.
	static void** keep(void** p) { return copies(p, std::index_sequence_for<A...>()); }
};

struct Entry { const char* name; Runner run; void** (*keep)(void**); int barriers; };
extern Entry entries[];

static void** current_params;
static Runner current;
// body runs one thread of a block after the other, for ever: starting a coroutine costs system calls.
static void body() {
	for (;;) {
		current(current_params);
		fiber->finished = true;
		if (!_setjmp(fiber->at)) _longjmp(scheduler, 1);
	}
}

__attribute__((noinline)) static void resume(Fiber* f) {
	fiber = f;
	if (_setjmp(scheduler)) return;
	if (f->begun) _longjmp(f->at, 1);
	f->begun = true;
	setcontext(&f->start);
}

static Fiber* make_fibers() {
	enum { stack = 65536 };
	Fiber* all = new Fiber[1024];
	for (int t = 0; t < 1024; t++) {
		all[t].begun = false;
		getcontext(&all[t].start);
		all[t].start.uc_stack.ss_sp = std::malloc(stack);
		all[t].start.uc_stack.ss_size = stack;
		all[t].start.uc_link = 0;
		makecontext(&all[t].start, body, 0);
	}
	return all;
}

static void with_barriers(unsigned threads) {
	static Fiber* fibers = make_fibers();
	coroutines = true;
	for (unsigned t = 0; t < threads; t++) fibers[t].finished = false;
	for (unsigned left = threads; left > 0;) {
		left = 0;
		for (unsigned t = 0; t < threads; t++) {
			if (fibers[t].finished) continue;
			threadIdx = {t, 0, 0};
			resume(&fibers[t]);
			left += !fibers[t].finished;
		}
	}
	coroutines = false;
}

extern "C" __attribute__((visibility("default"))) int emulator_launch(const char* name, unsigned gx, unsigned gy, unsigned gz, unsigned threads, void** params) {
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

extern "C" __attribute__((visibility("default"))) int emulator_has(const char* name) {
	for (Entry* e = entries; e->name; e++)
		if (!std::strcmp(e->name, name)) return 0;
	return 1;
}

extern "C" __attribute__((visibility("default"))) void** emulator_keep(const char* name, void** params) {
	for (Entry* e = entries; e->name; e++)
		if (!std::strcmp(e->name, name)) return e->keep(params);
	return 0;
}

extern "C" __attribute__((visibility("default"))) int emulator_free(void** all) {
	for (void** p = all; *p; p++) std::free(*p);
	std::free(all);
	return 0;
}
