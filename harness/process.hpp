// Processes of a suite: pipes with framed messages, limits, endings. Linux; nothing here knows what
// a case is.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace parity {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(), fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void reset();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read = {}, write = {};
};
Pipe make_pipe();  // close-on-exec

// What a child says. A frame is a magic word, its kind, an index, a length, a checksum and the
// payload.
enum class FrameKind : std::uint8_t {
  Hello,        // payload: the pid, in decimal
  Truth,        // inputs and truth of the piece of work `index` are being computed
  TruthFailed,  // payload: error kind, newline, reason
  Base,         // base and vacuity for candidate `index`
  Candidate,    // candidate `index` runs; payload: the pid in which it does
  Record,       // of candidate `index`
  Skipped       // candidate `index` was not wanted any more
};
struct Frame {
  FrameKind kind = FrameKind::Hello;
  std::uint32_t index = 0;
  std::string payload = {};
};
void send_frame(int fd, const Frame&);  // throws Failure where the other side is gone

bool holds_frame(std::string_view bytes);  // a whole frame, or something that will never be one

class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  std::optional<Frame> next();  // throws Failure on anything that is no frame
  bool empty() const { return at_ == buffer_.size(); }

 private:
  std::string buffer_ = {};
  std::size_t at_ = 0;  // what lies before it was handed out
};

using Deadline = std::chrono::steady_clock::time_point;
Deadline after_seconds(double seconds);
int poll_ms(Deadline);  // what is left, rounded up; 0 once it has passed

// How a process ended.
struct Ending {
  int status = 0;  // of waitpid
  std::int64_t max_rss_bytes = 0;
};
Ending reap(pid_t pid);                                 // waits
Ending kill_and_reap(pid_t pid);                        // with its process group
std::optional<Ending> reap_until(pid_t pid, Deadline);  // nothing where it still lives then

struct Trouble {
  std::string kind = {};    // error_kind of a record
  std::string reason = {};  // a sentence
};
// A limit of address space, as it holds for a process and what it forks; without one, both are 0.
struct MemoryLimit {
  std::int64_t more_bytes = 0;   // beyond what was mapped when it was set
  std::int64_t start_bytes = 0;  // resident then
};
// Why a process ended. Where an allocation failed, the process says so itself (die_out_of_memory);
// that memory ran out is guessed only of one that had filled its limit.
Trouble explain(const Ending&, const MemoryLimit& = {});

// Children of this process, started here or inherited from those that ended.
std::vector<pid_t> children();
// Kills and reaps all of them but those in `except`, in whatever process group they are.
void kill_children(std::span<const pid_t> except = {});
bool has_ended(pid_t pid);  // a child that is not reaped yet

// First steps of a forked child: dies with its parent, leads a process group of its own, default
// signals, no core file, an uncaught std::bad_alloc ends in die_out_of_memory. Returns false where
// the parent is already gone.
bool become_child(pid_t parent);
[[noreturn]] void die_out_of_memory();  // so that explain() knows
// Address space beyond what is mapped now; <= 0: none. Returns the limit that holds from now on:
// the user's own where that is tighter, none under a sanitizer.
MemoryLimit limit_memory(std::int64_t more_bytes);
// fork, after this process gave the pages that it has freed back to the kernel: a fork copies the
// table of all pages that its parent holds.
pid_t lean_fork();
void quiet_stdio();  // stdin is empty, stdout goes to stderr
void mute_stderr();

}  // namespace parity
