#include "harness/worker.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/failure.hpp"
#include "harness/launch.hpp"

namespace parity {
namespace {

WalkOptions walk_options(const SuiteOptions& options) {
  return {.repeat = options.repeat, .details = options.details, .waive = options.waive};
}

bool on_device(const Candidate& c) {
  return c.kernel && c.unsupported.empty() && runs_on_device(*c.kernel);
}

// In the grandchild: the walk of each candidate that is ordered, and its record into the pipe. What
// went wrong may have spoilt this process (after a fault of a GPU kernel it can do no more on the
// device), so an error is its last answer.
[[noreturn]] void answer(const Subject& subject, const Known& known, const SuiteOptions& options,
                         int orders, int out) {
  try {
    std::uint32_t index = 0;
    while (::recv(orders, &index, sizeof index, 0) == sizeof index) {
      const Candidate& candidate = subject.candidates.at(index);
      if (!candidate.fault.empty()) mute_stderr();  // a mutant that dies of its fault is no news
      const CaseRecord record = run_case(subject, candidate, known, walk_options(options));
      send_frame(out, {FrameKind::Record, 0, to_wire(record)});
      if (record.status == name(Status::Error)) break;
    }
    ::_exit(0);
  } catch (const std::bad_alloc&) {  // of a kernel that kept what it had
    die_out_of_memory();
  } catch (...) {
    ::_exit(2);
  }
}

// Reads until the end of the pipe, a whole message, the end of the process (what it left behind may
// hold the pipe open) or the deadline; false: the deadline.
bool drain(int fd, pid_t pid, Deadline deadline, std::string& bytes) {
  std::array<char, 1 << 16> chunk{};
  constexpr int kLookMs = 20;
  constexpr std::size_t kTooLong = std::size_t{1} << 30;  // no record is
  while (bytes.size() < kTooLong && !holds_frame(bytes)) {
    pollfd p{fd, POLLIN, 0};
    const int left = poll_ms(deadline);
    const bool ended = has_ended(pid);  // asked first: what it wrote before is then read
    const int ready = ::poll(&p, 1, ended ? 0 : std::min(left, kLookMs));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0 && ended) return true;
    if (ready <= 0 && left == 0) return false;
    if (ready <= 0) continue;
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n == 0 || (n < 0 && errno != EINTR)) return true;
    if (n > 0) bytes.append(chunk.data(), static_cast<std::size_t>(n));
  }
  return true;
}

CaseRecord read_record(const std::string& bytes, const Ending& ending, const MemoryLimit& limit,
                       const CaseRecord& blank) {
  const auto error = [&](Trouble t) {
    CaseRecord record = blank;
    record.status = name(Status::Error);
    record.error_kind = t.kind;
    record.reason = t.reason;
    return record;
  };
  if (bytes.empty()) return error(explain(ending, limit));
  try {
    FrameReader reader;
    reader.feed(bytes);
    const auto frame = reader.next();
    if (!frame) return error(explain(ending, limit));  // died while answering
    if (frame->kind != FrameKind::Record || !reader.empty()) throw Failure("more than a record");
    CaseRecord record = from_wire(frame->payload);
    parse_status(record.status);
    if (record.id != blank.id || record.direction != blank.direction)
      throw Failure("the record of another case");
    return record;
  } catch (const std::exception& e) {
    return error(
        {"harness", fmt::format("unreadable answer of {} bytes: {}", bytes.size(), e.what())});
  }
}

// The process that runs a candidate. One of a GPU kernel is kept for the next of the same contract:
// initialising CUDA takes a quarter of a second.
struct Grandchild {
  pid_t pid = -1;
  Fd orders = {}, answers = {};
  std::string contract = {};  // whose base it knows
};

Grandchild fork_grandchild(const Subject& subject, std::size_t index, const Known& known,
                           const SuiteOptions& options, int out) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Failure("socketpair failed");
  Fd here(ends[0]), there(ends[1]);
  Pipe answers = make_pipe();
  const pid_t self = ::getpid();
  const pid_t pid = lean_fork();
  if (pid < 0) throw Failure("fork failed");
  if (pid == 0) {
    // Said by itself and first: a kernel may end this process's parent before the parent says it.
    send_frame(
        out, {FrameKind::Candidate, static_cast<std::uint32_t>(index), std::to_string(::getpid())});
    ::close(out);
    here.reset();
    answers.read.reset();
    if (!become_child(self)) ::_exit(2);
    answer(subject, known, options, there.get(), answers.write.get());
  }
  ::setpgid(pid, pid);  // also here, so that the group exists before it may have to be killed
  return {pid, std::move(here), std::move(answers.read), subject.candidates[index].contract.key()};
}

// With all that it left behind.
void finish(std::optional<Grandchild>& grandchild) {
  if (grandchild) kill_and_reap(grandchild->pid);
  grandchild.reset();
}

// Orders one candidate and waits for its record. The grandchild is gone afterwards, unless it is to
// be kept and is fit for more.
CaseRecord ask(std::optional<Grandchild>& grandchild, const Subject& subject, std::size_t index,
               const SuiteOptions& options, const MemoryLimit& limit, bool keep) {
  const CaseRecord blank = blank_record(subject, subject.candidates[index]);
  const pid_t pid = grandchild->pid;
  const auto order = static_cast<std::uint32_t>(index);
  ::send(grandchild->orders.get(), &order, sizeof order,
         MSG_NOSIGNAL);  // one that died is noticed below
  if (!keep) grandchild->orders.reset();
  const Deadline deadline = after_seconds(options.timeout_s);
  std::string bytes;
  std::optional<Ending> ending;
  if (drain(grandchild->answers.get(), pid, deadline, bytes)) {
    if (keep && holds_frame(bytes) && !has_ended(pid)) {
      CaseRecord record = read_record(bytes, {}, limit, blank);
      if (record.status == name(Status::Error)) finish(grandchild);
      return record;
    }
    ending = reap_until(pid, deadline);
  }
  if (!ending) kill_and_reap(pid);
  ::kill(-pid, SIGKILL);
  kill_children();
  grandchild.reset();
  if (!ending) {
    CaseRecord record = blank;
    record.status = name(Status::Error);
    record.error_kind = "timeout";
    record.reason = fmt::format("no answer within {:g} s", options.timeout_s);
    return record;
  }
  return read_record(bytes, *ending, limit, blank);
}

// `grandchild`: one that was kept, or none.
CaseRecord run_in_grandchild(std::optional<Grandchild>& grandchild, const Subject& subject,
                             std::size_t index, Groundwork& ground, const SuiteOptions& options,
                             const MemoryLimit& limit, int out) {
  const Candidate& candidate = subject.candidates[index];
  const bool keep = on_device(candidate);
  if (grandchild && (!keep || grandchild->contract != candidate.contract.key())) finish(grandchild);
  if (grandchild)
    send_frame(out, {FrameKind::Candidate, static_cast<std::uint32_t>(index),
                     std::to_string(grandchild->pid)});
  else
    grandchild = fork_grandchild(subject, index, ground.known(candidate.contract), options, out);
  return ask(grandchild, subject, index, options, limit, keep);
}

}  // namespace

void serve_subject(const Subject& subject, std::size_t number, std::span<const std::size_t> todo,
                   const SuiteOptions& options, const SuiteHooks& hooks, int out) {
  try {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a kernel leaves behind comes to this process
    quiet_stdio();
    // CUDA reserves address space for the memory of all devices at once.
    const bool device = std::ranges::any_of(subject.candidates, on_device);
    const MemoryLimit limit = device ? MemoryLimit{} : limit_memory(options.memory_bytes);
    send_frame(out, {FrameKind::Hello, 0, std::to_string(::getpid())});
    send_frame(out, {FrameKind::Truth});
    std::optional<Groundwork> ground;
    try {
      ground.emplace(subject, wants_gradients(subject, todo));
    } catch (...) {
      const Trouble t = trouble_of(std::current_exception());
      send_frame(out, {FrameKind::TruthFailed, 0, t.kind + "\n" + t.reason});
      ::_exit(0);
    }
    std::optional<Grandchild> grandchild;
    for (const std::size_t i : todo) {
      const Candidate& candidate = subject.candidates[i];
      const auto index = static_cast<std::uint32_t>(i);
      if (hooks.wanted && !hooks.wanted(number, i)) {
        send_frame(out, {FrameKind::Skipped, index});
        continue;
      }
      send_frame(out, {FrameKind::Base, index});
      CaseRecord record;
      try {
        record = run_in_grandchild(grandchild, subject, i, *ground, options, limit, out);
      } catch (...) {
        record = error_record(subject, candidate, trouble_of(std::current_exception()));
      }
      if (hooks.finished) hooks.finished(number, i, record);
      send_frame(out, {FrameKind::Record, index, to_wire(record)});
    }
    finish(grandchild);
    ::_exit(0);
  } catch (const std::bad_alloc&) {
    die_out_of_memory();
  } catch (...) {
    ::_exit(2);
  }
}

}  // namespace parity
