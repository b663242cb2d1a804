// A fake libnvrtc: it makes an ordinary shared library of a CUDA program, whose
// threads run one after the other on the processor (shim.h, launch.h). Its
// "CUBIN" is the path of that library, zero-terminated, for the fake libcuda.
// CUDA_FAKE_DIR is where the two headers lie and where libraries are remembered.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

typedef unsigned long long u64;

struct Program {
	std::string source, log, image;
};

static std::string folder() {
	const char* d = std::getenv("CUDA_FAKE_DIR");
	return d ? d : ".";
}

static std::string text(const std::string& path) {
	std::ifstream f(path);
	std::stringstream s;
	s << f.rdbuf();
	return s.str();
}

// table lists the kernels: lines that begin with KERNEL name(.
static std::string table(const std::string& src) {
	std::string out = "Entry entries[] = {\n";
	const std::string mark = "\nKERNEL ";
	for (size_t at = src.find(mark); at != std::string::npos;) {
		size_t name = at + mark.size(), next = src.find(mark, name);
		std::string n = src.substr(name, src.find('(', name) - name), body = src.substr(name, next == std::string::npos ? next : next - name);
		// By name: functions with barriers are called block_… or …lane_sum….
		bool barriers = body.find("__syncthreads") != std::string::npos || body.find("block_") != std::string::npos || body.find("lane_sum") != std::string::npos;
		std::string call = "Unpack<decltype(&" + n + "), &" + n + ">";
		out += "{\"" + n + "\", " + call + "::run, " + call + "::keep, " + (barriers ? "1" : "0") + "},\n";
		at = next;
	}
	return out + "{0, 0, 0, 0}};\n";
}

static std::string hash(const std::string& s) {
	u64 a = 14695981039346656037ull, b = 88172645463325252ull;
	for (unsigned char c : s) {
		a = (a ^ c) * 1099511628211ull;
		b = (b + c) * 6364136223846793005ull + 1442695040888963407ull;
	}
	char out[40];
	std::snprintf(out, sizeof out, "%016llx%016llx", a, b);
	return out;
}

extern "C" {

// The version is one for each build of the fakes: images that are remembered elsewhere name its folder.
int nvrtcVersion(int* major, int* minor) {
	*major = 12;
	*minor = BUILD;
	return 0;
}

int nvrtcCreateProgram(Program** p, const char* source, const char*, int, const char**, const char**) {
	*p = new Program{source, "", ""};
	return 0;
}

int nvrtcDestroyProgram(Program** p) {
	delete *p;
	*p = nullptr;
	return 0;
}

int nvrtcCompileProgram(Program* p, int, const char**) {
	std::string src = "\n" + text(folder() + "/shim.h") + p->source + "\n" + text(folder() + "/launch.h") + table("\n" + p->source);
	std::string path = folder() + "/kernels-" + hash(src) + ".so";
	struct stat have;
	if (stat(path.c_str(), &have) != 0) {
		std::string draft = path + "." + std::to_string(getpid()) + "." + std::to_string((uintptr_t)p);
		std::ofstream(draft + ".cpp") << src;
		// hidden, because libraries are opened for all to see, and their names are the same;
		// no contraction: a fused multiply-add here would hide a lost one there
		std::string command = "g++ -std=c++17 -O1 -U_FORTIFY_SOURCE -ffp-contract=off -fPIC -shared -fvisibility=hidden -fno-gnu-unique -Wall -Wno-unused -o '" +
			draft + "' '" + draft + ".cpp' 2>'" + draft + ".log'";
		int failed = std::system(command.c_str());
		p->log = text(draft + ".log");
		unlink((draft + ".cpp").c_str());
		unlink((draft + ".log").c_str());
		if (failed || !p->log.empty() || std::rename(draft.c_str(), path.c_str()) != 0) return 6;
	}
	p->image = path;
	return 0;
}

int nvrtcGetProgramLogSize(Program* p, size_t* n) {
	*n = p->log.size() + 1;
	return 0;
}

int nvrtcGetProgramLog(Program* p, char* log) {
	std::memcpy(log, p->log.c_str(), p->log.size() + 1);
	return 0;
}

int nvrtcGetCUBINSize(Program* p, size_t* n) {
	*n = p->image.size() + 1;
	return 0;
}

int nvrtcGetCUBIN(Program* p, char* image) {
	std::memcpy(image, p->image.c_str(), p->image.size() + 1);
	return 0;
}

}

enum { NotSupported = 11 };
#include "fakenvrtc.h" // made from the binding: what nobody has asked for yet
