// Trouble befalls the nth run of a kernel, or of a copy by the name of its
// function: CUDA_FAKE_TROUBLE="HOW NAME NTH DEVICE", 1 and any device if left out.
// HOW is "hang", work that never ends; the code of a fault that every call returns
// from then on; or "block", a call to launch that never returns.
#include <atomic>
#include <unistd.h>

static std::atomic<int> faulted[64]; // by device: the code
static std::atomic<int> runs;        // of what has trouble
static std::atomic<bool> idle;       // CUDA_FAKE_NULL, as the last device that was opened found it

static int ordinal() { return int((uintptr_t)current) - 1; }

static int faulty() { return faulted[ordinal()]; }

// trouble is HOW it is, if it is this run's; empty otherwise.
static std::string trouble(const char* name, int device, bool call) {
	char how[16] = "", of[64] = "";
	int nth = 1, only = -1;
	const char* text = std::getenv("CUDA_FAKE_TROUBLE");
	if (!text || std::sscanf(text, "%15s %63s %d %d", how, of, &nth, &only) < 2) return "";
	if (std::strcmp(of, name) || (only >= 0 && only != device) || call != !std::strcmp(how, "block")) return "";
	return ++runs == nth ? how : "";
}

[[noreturn]] static void never() {
	for (;;) pause();
}

// spoiled reports whether the next work of a stream must be skipped; on "hang" it never returns.
static bool spoiled(Stream* s, const char* name, int device) {
	std::string how = trouble(name, device, false);
	if (how == "hang") {
		{
			Lock lock(big);
			s->stuck = true;
		}
		never();
	}
	if (how.empty()) return false;
	faulted[device] = std::atoi(how.c_str());
	return true;
}

static void blocked(const char* name) {
	if (!trouble(name, ordinal(), true).empty()) never();
}

// whole makes a device that is opened anew as it was before its trouble, without
// streams that are stuck and those that wait for them.
static void whole(int device) {
	faulted[device] = runs = 0;
	idle = set("CUDA_FAKE_NULL");
	auto of = [device](Stream* s) { return s->device == device; };
	if (std::none_of(streams.begin(), streams.end(), [&](Stream* s) { return of(s) && s->stuck; })) return;
	streams.erase(std::remove_if(streams.begin(), streams.end(), of), streams.end());
}
