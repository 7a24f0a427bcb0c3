#include "harness/testing/evil.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <signal.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include "harness/testing/scaled.hpp"

namespace parity::test {
namespace {

float* y(const Launch& l) { return l.out<float>("y"); }
std::size_t size(const Launch& l) {
  return static_cast<std::size_t>(l.problem.sizes["N"] * l.problem.sizes["D"]);
}

void after_end(const Launch& l) { forward(l), y(l)[size(l) + 2] = 1; }
void before_start(const Launch& l) { forward(l), y(l)[-1] = 1; }
void copies_past_end(const Launch& l) {  // carries poison with it: only its bits give it away
  y(l)[size(l)] = y(l)[0];
  forward(l);
}
void past_workspace(const Launch& l) {
  forward(l), l.workspace.data()[l.workspace.size()] = std::byte{1};
}
void scribbles_input(const Launch& l) {
  forward(l);
  for (const TensorView& v : l.inputs)
    if (v.spec->name == "w") v.data[9] ^= std::byte{1};
}
void scribbles_saved(const Launch& l) {
  backward(l), l.save<std::byte>("saved_x")[5] ^= std::byte{1};
}
void unwritten(const Launch& l) {
  const std::vector<float> before(y(l), y(l) + size(l));
  forward(l);
  std::memcpy(y(l) + 3, before.data() + 3, 2 * sizeof(float));
}
void unwritten_codes(const Launch& l) {
  std::uint8_t* codes = l.out<std::uint8_t>("codes");
  const std::uint8_t before = codes ? codes[4] : std::uint8_t{0};
  forward(l);
  if (codes) codes[4] = before;
}
void adds_to_output(const Launch& l) {
  const std::vector<float> before(y(l), y(l) + size(l));
  forward(l);
  for (std::size_t i = 0; i < size(l); ++i) y(l)[i] += before[i];
}
void reads_past_end(const Launch& l) {
  forward(l);
  y(l)[size(l) - 1] = l.in<float>("x")[size(l)] * 0.0f;  // NaN of the canary survives
}
void makes_nan(const Launch& l) { forward(l), y(l)[0] = std::numeric_limits<float>::quiet_NaN(); }
void wrong(const Launch& l) { forward(l), y(l)[1] *= 1.001f; }
void wrong_code(const Launch& l) {
  forward(l);
  if (auto* codes = l.out<std::uint8_t>("codes")) codes[2] ^= 1;
}
void flush_subnormals(const Launch& l) {  // leaves the mode on; the harness must not compute in it
  forward(l);
#if defined(__SSE__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
#endif
}
void crashes(const Launch&) { *static_cast<volatile int*>(nullptr) = 1; }
void aborts(const Launch&) { std::abort(); }
[[noreturn]] void sleep_forever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}
void hangs(const Launch&) { sleep_forever(); }
void stops(const Launch&) { ::raise(SIGSTOP); }
void exits(const Launch& l) { forward(l), std::exit(0); }
void throws(const Launch&) { throw std::runtime_error("no plan for this shape"); }
void throws_int(const Launch&) { throw 7; }
void allocates(const Launch&) {
  std::vector<std::vector<char>> all;
  for (;;) all.emplace_back(64 << 20, 'x');
}
void allocates_in_thread(const Launch& l) {
  std::thread([&] { allocates(l); }).join();
}
void throws_in_thread(const Launch& l) {
  std::thread([&] { throws(l); }).join();
}
void mallocs(const Launch&) {  // and never looks whether it got any
  static void* volatile kept;
  for (constexpr std::size_t size = 1 << 20;;) {
    kept = std::malloc(size);
    std::memset(kept, 1, size);
  }
}
void keeps_all(const Launch&) {  // nothing is left to write the record with
  static void** kept = nullptr;
  for (std::size_t size = 64 << 20; size >= sizeof(void*); size /= 2)
    while (auto* more = static_cast<void**>(std::malloc(size))) *more = kept, kept = more;
  throw std::bad_alloc();
}
int deeper(volatile char* above, int depth) {
  volatile char here[4096];
  here[0] = *above;
  return depth < 1 << 30 ? deeper(here, depth + 1) + here[0] : 0;
}
void overflows_stack(const Launch&) {
  volatile char start = 1;
  if (deeper(&start, 0) == 0) std::abort();
}
void writes_descriptors(const Launch& l) {  // garbage into whatever is open
  forward(l);
  for (int fd = 3; fd < 64; ++fd)
    if (::write(fd, "garbage garbage garbage", 23) < 0) continue;
}
void closes_descriptors(const Launch& l) {
  forward(l);
  for (int fd = 3; fd < 64; ++fd) ::close(fd);
}
void kills_parent(const Launch&) {
  ::kill(::getppid(), SIGKILL);
  sleep_forever();
}
void leaves_process(const Launch& l) {
  forward(l);
  if (::fork() == 0) {
    ::setsid();
    for (;;) ::pause();
  }
}
void leaves_thread(const Launch& l) {
  forward(l);
  std::thread(sleep_forever).detach();
}
void prints(const Launch& l) {
  forward(l);
  if (::write(STDOUT_FILENO, "", 0) != 0) std::abort();
}

// Sanitizers turn signals into reports of their own, and their shadow memory rules out a limit of
// address space.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct Entry {
  Evil evil;
  void (*forward)(const Launch&) = test::forward;
  void (*backward)(const Launch&) = test::backward;
};

std::vector<Entry> entries() {
  return {
      {{"after_end", "fail", "", "accounting",
        "forward wrote outside output 'y': byte 8 past the end"},
       after_end},
      {{"before_start", "fail", "", "accounting",
        "forward wrote outside output 'y': byte 1 before the start"},
       before_start},
      {{"copies_past_end", "fail", "", "accounting", "byte 0 past the end"}, copies_past_end},
      {{"past_workspace", "fail", "", "accounting",
        "wrote outside its workspace: byte 0 past the end"},
       past_workspace},
      {{"scribbles_input", "fail", "", "accounting", "forward changed input 'w' at byte 9 (d=2)"},
       scribbles_input},
      {{"scribbles_saved", "fail", "", "accounting",
        "backward changed saved tensor 'saved_x' at byte 5 (n=0,d=1)"},
       forward,
       scribbles_saved},
      {{"unwritten", "fail", "", "accounting",
        "output 'y': 8 bytes were never written, the first at byte 12 (n=0,d=3)"},
       unwritten},
      {{"unwritten_codes", "fail", "", "accounting",
        "codes 'codes': 1 byte was never written, the first at byte 4 (n=0,d=4)"},
       unwritten_codes},
      {{"adds_to_output", "fail", "", "accounting", "never written"}, adds_to_output},
      {{"reads_past_end", "fail", "", "finiteness", "y"}, reads_past_end},
      {{"makes_nan", "fail", "", "finiteness", "y"}, makes_nan},
      {{"wrong", "fail", "", "bound", "y"}, wrong},
      {{"wrong_code", "fail", "", "discrete", "codes"}, wrong_code},
      {{"flush_subnormals", "pass", "", "", ""}, flush_subnormals},
      {{"prints", "pass", "", "", ""}, prints},
      {{"leaves_thread", "pass", "", "", ""}, leaves_thread},
      {{"leaves_process", "pass", "", "", ""}, leaves_process},
      {{"crashes", "error", "crash", "", "SIGSEGV"}, crashes},
      {{"aborts", "error", "crash", "", "SIGABRT"}, aborts},
      {{"exits", "error", "crash", "", "exited with code 0 before it had finished"}, exits},
      {{"throws", "error", "crash", "", "forward threw: no plan for this shape"}, throws},
      {{"throws_int", "error", "crash", "", "no exception"}, throws_int},
      {{"overflows_stack", "error", "crash", "", "SIGSEGV"}, overflows_stack},
      {{"kills_parent", "error", "memory", "", "SIGKILL"}, kills_parent},
      {{"allocates", "error", "memory", "", "out of memory"}, allocates},
      {{"allocates_in_thread", "error", "memory", "", "nothing caught that"}, allocates_in_thread},
      {{"mallocs", "error", "memory", "", "that it may use"}, mallocs},
      {{"keeps_all", "error", "memory", "", "out of memory"}, keeps_all},
      {{"throws_in_thread", "error", "crash", "", "SIGABRT"}, throws_in_thread},
      {{"hangs", "error", "timeout", "", "no answer within"}, hangs},
      {{"stops", "error", "timeout", "", "no answer within"}, stops},
      {{"closes_descriptors", "error", "crash", "", "before it had finished"}, closes_descriptors},
      {{"writes_descriptors", "error", "harness", "", "unreadable answer"}, writes_descriptors},
  };
}

// Names and kernels live as long as the registry.
struct Registered {
  std::vector<Entry> list = entries();
  std::vector<std::string> names = {};
  std::vector<Evil> evil = {};
  Registered() {
    if (kSanitized) {
      std::erase_if(list, [](const Entry& e) {
        return e.evil.error_kind == "memory" || e.evil.name == "exits" ||
               e.evil.name == "overflows_stack";
      });
      for (Entry& e : list)
        if (e.evil.complaint == "SIGSEGV") e.evil.complaint = "";
    }
    for (const Entry& e : list) names.push_back("test_evil." + std::string(e.evil.name));
    for (std::size_t i = 0; i < list.size(); ++i) {
      KernelDef k = scaled_kernel("test_evil", names[i]);
      k.contract.invariant = {};
      k.contract.dtypes = {Dtype::F32};
      k.forward = list[i].forward;
      k.backward = list[i].backward;
      const Register kernel{std::move(k)};
      evil.push_back(list[i].evil);
    }
  }
};
const Registered registered;

const Register op{scaled_op("test_evil")};
const Register bounds{scaled_bound("test_evil")};
CaseSet cases() {
  CaseSet set = scaled_cases("test_evil");
  set.lane = Lane::Long;  // out of the way of whoever expands the smoke lane
  return set;
}
const Register set{cases()};

}  // namespace

const std::vector<Evil>& evils() { return registered.evil; }

}  // namespace parity::test
