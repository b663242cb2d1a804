// Streams and what is enqueued on them. Work runs as late as CUDA allows: when
// somebody waits for it, in this process or in another, so that whoever reads
// without waiting reads what was there before. CUDA_FAKE_EAGER=1 runs it at once,
// the other extreme; CUDA_FAKE_NULL=1 does nothing of it, to time who enqueues. Who waits runs the work himself; for who only asks, and for
// other processes, a thread of the stream does.
#include <algorithm>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <signal.h>
#include <string>
#include <thread>
#include <vector>

typedef unsigned long long Ptr;
typedef unsigned long long u64;
typedef uint32_t u32;

enum { Success = 0, InvalidValue = 1, OutOfMemory = 2, InvalidDevice = 101, InvalidContext = 201, NotReady = 600, AlreadyRegistered = 712, NotRegistered = 713, NotPermitted = 800, NotSupported = 801 };

struct Graph;
typedef std::function<void()> Op;

struct Stream {
	std::deque<Op> queue;
	u64 enqueued = 0, done = 0;
	u64 wanted = 0;          // how far its thread runs
	std::condition_variable asked; // wakes that thread
	bool running = false;    // an operation is being run, by whomever
	bool thread = false;     // it has one
	int device = 0;
	bool stuck = false;      // at work that never ends
	Graph* capture = nullptr; // what is enqueued goes there
	bool busy = false;        // NCCL is not done launching on it
};

// Graph is captured work; ready ones are copies of it.
struct Graph {
	std::vector<Op> work;
};

typedef std::unique_lock<std::mutex> Lock;
// lasting makes what threads that never end may still use when the program does.
template <class T> static T& lasting() { return *new T; }

static std::mutex& big = lasting<std::mutex>(); // guards everything; operations run without it
static std::condition_variable& moved = lasting<std::condition_variable>();
static std::vector<Stream*>& streams = lasting<std::vector<Stream*>>();
static thread_local void* current;

static bool set(const char* name) {
	const char* on = std::getenv(name);
	return on && *on;
}

static int fail(const char* call, const char* what) {
	std::fprintf(stderr, "fakecuda: %s: %s\n", call, what);
	return InvalidValue;
}

#include "trouble.h"

// aside starts a thread that no signal of the program is delivered to.
template <class F> static void aside(F f) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	std::thread(f).detach();
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// advance returns when the stream has come so far.
static void advance(Lock& lock, Stream* s, u64 to) {
	while (s->done < to) {
		if (s->running) {
			moved.wait(lock);
			continue;
		}
		Op op = std::move(s->queue.front());
		s->queue.pop_front();
		s->running = true;
		lock.unlock();
		op();
		lock.lock();
		s->running = false;
		s->done++;
		moved.notify_all();
	}
}

// want lets the stream's thread bring it so far, and does not wait.
static void want(Stream* s, u64 to) {
	if (s->done >= to || s->wanted >= to) return;
	s->wanted = to;
	s->asked.notify_one();
	if (s->thread) return;
	s->thread = true;
	aside([s] {
		for (Lock lock(big);;) {
			if (s->done < s->wanted) advance(lock, s, s->wanted);
			else s->asked.wait(lock);
		}
	});
}

static void advance_all(Lock& lock) {
	for (size_t i = 0; i < streams.size(); i++) advance(lock, streams[i], streams[i]->enqueued);
}

// enqueue adds an operation; one that waits for other processes is left to the stream's thread.
static void enqueue(Lock& lock, Stream* s, Op op, bool waits = false) {
	if (s->capture) {
		s->capture->work.push_back(std::move(op));
		return;
	}
	if (idle) return;
	bool behind = s->running || s->done < s->enqueued;
	s->queue.push_back(std::move(op));
	s->enqueued++;
	if (!set("CUDA_FAKE_EAGER")) return;
	if (waits || behind) want(s, s->enqueued);
	else advance(lock, s, s->enqueued);
}

#define FAKE(name, ...) extern "C" int name(__VA_ARGS__)
#define ENTER() \
	Lock lock(big); \
	if (!current) return InvalidContext; \
	if (int code = faulty()) return code

// ONTO is for calls that put something on a stream. In a graph belong launches alone.
#define ONTO(call, s) \
	ENTER(); \
	if (s->busy) return NotPermitted; \
	if (s->capture) return fail(call, "the stream is captured")

FAKE(cuStreamCreate, Stream** s, unsigned) {
	ENTER();
	streams.push_back(*s = new Stream);
	(*s)->device = ordinal();
	return Success;
}

FAKE(cuStreamCreateWithPriority, Stream** s, unsigned flags, int) { return cuStreamCreate(s, flags); }

FAKE(cuStreamDestroy_v2, Stream* s) {
	ENTER();
	advance(lock, s, s->enqueued);
	return Success; // kept: events may name it
}

FAKE(cuStreamSynchronize, Stream* s) {
	ENTER();
	if (s->capture) return fail("cuStreamSynchronize", "the stream is captured");
	advance(lock, s, s->enqueued);
	return Success;
}

FAKE(cuStreamQuery, Stream* s) {
	ENTER();
	if (s->capture) return fail("cuStreamQuery", "the stream is captured");
	if (s->done == s->enqueued) return Success;
	want(s, s->enqueued); // who asks again and again waits, too
	return NotReady;
}

FAKE(cuStreamBeginCapture_v2, Stream* s, int) {
	ENTER();
	if (s->capture) return fail("cuStreamBeginCapture", "the stream is captured already");
	s->capture = new Graph;
	return Success;
}

FAKE(cuStreamEndCapture, Stream* s, Graph** g) {
	ENTER();
	*g = s->capture;
	s->capture = nullptr;
	return *g ? Success : InvalidValue;
}

FAKE(cuGraphInstantiateWithFlags, Graph** exec, Graph* g, u64) {
	ENTER();
	*exec = new Graph(*g);
	return Success;
}

FAKE(cuGraphDestroy, Graph* g) {
	delete g;
	return Success;
}

FAKE(cuGraphExecDestroy, Graph* exec) {
	ENTER();
	advance_all(lock); // a launched one may be under way
	delete exec;
	return Success;
}

FAKE(cuGraphLaunch, Graph* exec, Stream* s) {
	ONTO("cuGraphLaunch", s);
	for (const auto& op : exec->work) enqueue(lock, s, op);
	return Success;
}

// What the fake NCCL does on a stream: it may wait for other processes.
extern "C" void fakecuda_enqueue(Stream* s, void (*run)(void*), void* arg, u64* at) {
	Lock lock(big);
	enqueue(lock, s, [run, arg] { run(arg); }, true);
	*at = s->enqueued;
}

// fakecuda_busy says that NCCL begins or ends to launch on a stream.
extern "C" void fakecuda_busy(Stream* s, int on) {
	Lock lock(big);
	s->busy = on;
}

extern "C" void fakecuda_want(Stream* s, u64 at) {
	Lock lock(big);
	want(s, at);
}
