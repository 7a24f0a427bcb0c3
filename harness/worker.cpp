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

// Whether the candidate is arithmetic of this project, which needs no process of its own.
bool is_own(const Candidate& c) { return !c.kernel && c.environment.empty(); }

// In the grandchild: the walk of each candidate that is ordered, and its record into the pipe. What
// went wrong may have spoilt this process, so an error is its last answer.
[[noreturn]] void answer(const Subject& subject, Groundwork& ground, const SuiteOptions& options,
                         int orders, int out) {
  try {
    std::uint32_t index = 0;
    while (::recv(orders, &index, sizeof index, 0) == sizeof index) {
      const Candidate& candidate = subject.candidates.at(index);
      if (!candidate.fault.empty()) mute_stderr();  // a mutant that dies of its fault is no news
      const CaseRecord record =
          run_case(subject, candidate, ground.known(candidate.contract), walk_options(options));
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

// The process in which kernels run.
struct Grandchild {
  pid_t pid = -1;
  Fd orders = {}, answers = {};
};

// The work on one subject, in the child.
class Bench {
 public:
  Bench(const Subject& subject, const Work& work, const SuiteOptions& options,
        const SuiteHooks& hooks, const MemoryLimit& limit, int out)
      : subject_(subject),
        work_(work),
        options_(options),
        hooks_(hooks),
        limit_(limit),
        out_(out),
        ground_(subject, wants_gradients(subject, work.todo)) {}
  ~Bench() { finish(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // False: this process may be spoilt.
  bool run() {
    for (const std::size_t i : work_.todo) {
      const auto index = static_cast<std::uint32_t>(i);
      if (hooks_.wanted && !hooks_.wanted(work_.number, i)) {
        send_frame(out_, {FrameKind::Skipped, index});
        continue;
      }
      const Candidate& candidate = subject_.candidates[i];
      CaseRecord record;
      try {
        send_frame(out_, {FrameKind::Base, index});
        ground_.known(candidate.contract);  // throws here, if at all
        record = work_.device || is_own(candidate) ? here(index) : elsewhere(index);
      } catch (...) {
        record = error_record(subject_, candidate, trouble_of(std::current_exception()));
      }
      if (hooks_.finished) hooks_.finished(work_.number, i, record);
      send_frame(out_, {FrameKind::Record, index, to_wire(record)});
      if (work_.device && record.status == name(Status::Error)) return false;
    }
    return true;
  }

 private:
  CaseRecord here(std::uint32_t index) {
    const Candidate& candidate = subject_.candidates[index];
    send_frame(out_, {FrameKind::Candidate, index, std::to_string(::getpid())});
    return run_case(subject_, candidate, ground_.known(candidate.contract), walk_options(options_));
  }

  // In the grandchild in which others passed, if there is one; what does not pass there is judged
  // again in a fresh one, and is the last there.
  CaseRecord elsewhere(std::uint32_t index) {
    const bool fresh = !grandchild_;
    CaseRecord record = ask(index);
    const bool doubtful = record.status == name(Status::Fail) ||
                          (record.status == name(Status::Error) && record.error_kind != "timeout");
    if (!doubtful) return record;
    finish();
    if (!fresh) record = ask(index);
    finish();
    return record;
  }

  // A fork copies what the child knows: all bases that its kernels will ask for come first.
  void fork_grandchild() {
    for (const std::size_t i : work_.todo) {
      const Candidate& candidate = subject_.candidates[i];
      if (is_own(candidate)) continue;
      send_frame(out_, {FrameKind::Base, static_cast<std::uint32_t>(i)});
      try {
        ground_.known(candidate.contract);
      } catch (const Failure&) {  // said where that candidate's turn comes
      }
    }
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw Failure("socketpair failed");
    Fd here(ends[0]), there(ends[1]);
    Pipe answers = make_pipe();
    const pid_t self = ::getpid();
    const pid_t pid = lean_fork();
    if (pid < 0) throw Failure("fork failed");
    if (pid == 0) {
      ::close(out_);
      here.reset();
      answers.read.reset();
      if (!become_child(self)) ::_exit(2);
      answer(subject_, ground_, options_, there.get(), answers.write.get());
    }
    ::setpgid(pid, pid);  // also here, so that the group exists before it may have to be killed
    grandchild_ = Grandchild{pid, std::move(here), std::move(answers.read)};
  }

  // With all that it left behind.
  void finish() {
    if (!grandchild_) return;
    kill_and_reap(grandchild_->pid);
    kill_children();
    grandchild_.reset();
  }

  // Orders one candidate and waits for its record.
  CaseRecord ask(std::uint32_t index) {
    if (!grandchild_) fork_grandchild();
    const CaseRecord blank = blank_record(subject_, subject_.candidates[index]);
    const pid_t pid = grandchild_->pid;
    // Said before it starts: a kernel may end this process.
    send_frame(out_, {FrameKind::Candidate, index, std::to_string(pid)});
    ::send(grandchild_->orders.get(), &index, sizeof index,
           MSG_NOSIGNAL);  // one that died is noticed below
    const Deadline deadline = after_seconds(options_.timeout_s);
    std::string bytes;
    std::optional<Ending> ending;
    if (drain(grandchild_->answers.get(), pid, deadline, bytes)) {
      if (!bytes.empty() && holds_frame(bytes) && !has_ended(pid)) {
        CaseRecord record = read_record(bytes, {}, limit_, blank);
        if (record.status == name(Status::Error)) finish();
        return record;
      }
      ending = reap_until(pid, deadline);
    }
    if (!ending) kill_and_reap(pid);
    ::kill(-pid, SIGKILL);
    kill_children();
    grandchild_.reset();
    if (ending) return read_record(bytes, *ending, limit_, blank);
    CaseRecord record = blank;
    record.status = name(Status::Error);
    record.error_kind = "timeout";
    record.reason = fmt::format("no answer within {:g} s", options_.timeout_s);
    return record;
  }

  const Subject& subject_;
  const Work& work_;
  const SuiteOptions& options_;
  const SuiteHooks& hooks_;
  const MemoryLimit& limit_;
  int out_;
  Groundwork ground_;
  std::optional<Grandchild> grandchild_ = {};
};

}  // namespace

bool on_device(const Candidate& c) {
  return c.kernel && c.unsupported.empty() && runs_on_device(*c.kernel);
}

void serve(std::span<const Work> all, const std::function<const Subject&(std::size_t)>& subject_of,
           const SuiteOptions& options, const SuiteHooks& hooks, int out) {
  try {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a kernel leaves behind comes to this process
    quiet_stdio();
    // CUDA reserves address space for the memory of all devices at once.
    const bool device = std::ranges::any_of(all, &Work::device);
    const MemoryLimit limit = device ? MemoryLimit{} : limit_memory(options.memory_bytes);
    send_frame(out, {FrameKind::Hello, 0, std::to_string(::getpid())});
    for (std::size_t w = 0; w < all.size(); ++w) {
      send_frame(out, {FrameKind::Truth, static_cast<std::uint32_t>(w)});
      std::optional<Bench> bench;
      try {
        bench.emplace(subject_of(all[w].number), all[w], options, hooks, limit, out);
      } catch (...) {
        const Trouble t = trouble_of(std::current_exception());
        send_frame(out, {FrameKind::TruthFailed, 0, t.kind + "\n" + t.reason});
        continue;
      }
      if (!bench->run()) break;
    }
    ::_exit(0);
  } catch (const std::bad_alloc&) {
    die_out_of_memory();
  } catch (...) {
    ::_exit(2);
  }
}

}  // namespace parity
