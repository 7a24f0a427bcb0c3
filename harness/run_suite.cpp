// Order, isolation, limits: many subjects through children, records to the sink in order.
#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <thread>
#include <unistd.h>

#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "harness/suite_state.hpp"
#include "harness/zygote.hpp"

namespace parity {
namespace {

// SIGINT and SIGTERM arrive as a file descriptor while this lives; children that outlive a wait
// come to this process.
class Signals {
 public:
  Signals() {
    sigset_t ours;
    ::sigemptyset(&ours);
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ours, s);
    ::sigprocmask(SIG_BLOCK, &ours, &before_);
    fd_ = Fd(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
    children_ = children();
    ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Signals() {
    kill_children(children_);  // what is left of ended children
    ::prctl(PR_SET_CHILD_SUBREAPER, subreaper_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int fd() const { return fd_.get(); }
  int arrived() const {
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  sigset_t before_ = {};
  Fd fd_ = {};
  int subreaper_ = 0;
  std::vector<pid_t> children_ = {};  // the caller's own
};

// A child at work.
struct Running {
  std::vector<Work> work = {};  // what it still owes of each
  std::size_t at = 0;           // the piece that it works on
  pid_t pid = -1;
  pid_t grandchild = -1;
  Fd pipe = {};
  FrameReader reader = {};
  FrameKind phase = FrameKind::Hello;
  std::size_t current = 0;  // candidate, in the phases Base and Candidate
  bool answered = false;    // anything so far
  Deadline deadline = {};
  bool timed_out = false;

  std::size_t subject() const { return work[at].number; }
  Running() = default;
  Running(Running&&) = default;
  Running& operator=(Running&&) = default;
  ~Running() {
    if (pipe.get() >= 0) end();
  }
  void stop() {
    if (grandchild > 1) ::kill(-grandchild, SIGKILL);
    if (pid > 1) ::kill(pid, SIGKILL);
  }
  std::optional<Ending> end() {
    stop();
    pipe.reset();
    const pid_t child = std::exchange(pid, -1);
    if (child <= 1) return std::nullopt;  // it never said who it is
    return kill_and_reap(child);
  }
};

class Suite {
 public:
  Suite(const std::vector<Subject>& subjects, const SuiteOptions& options, const SuiteHooks& hooks,
        Ledger& ledger)
      : subjects_(subjects), options_(options), hooks_(hooks), ledger_(ledger) {
    const auto cores = std::max(1u, std::thread::hardware_concurrency());
    jobs_ = static_cast<std::size_t>(options.jobs > 0 ? options.jobs : static_cast<int>(cores));
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      Work host{.number = i}, device{.number = i, .device = true};
      for (const std::size_t c : ledger.todo(i))
        (on_device(subjects[i].candidates[c]) ? device : host).todo.push_back(c);
      for (Work* work : {&host, &device})
        if (!work->todo.empty()) waiting_.push_back(std::move(*work));
    }
    const std::string library =
        options.torch_library.empty() ? torch_library_path() : options.torch_library;
    if (std::ranges::any_of(waiting_, [&](const Work& w) { return needs_library(w); }) &&
        !library.empty())
      zygote_ = std::make_unique<Zygote>(subjects, options, hooks, library);
  }

  // The signal that ended it, or 0.
  int run(const Signals& signals) {
    ledger_.deliver();
    while (!waiting_.empty() || !running_.empty()) {
      while (running_.size() < jobs_ && !waiting_.empty()) start_next();
      ledger_.deliver();
      std::vector<pollfd> fds{{signals.fd(), POLLIN, 0}};
      Deadline nearest = after_seconds(60);
      for (const Running& r : running_) {
        fds.push_back({r.pipe.get(), POLLIN, 0});
        nearest = std::min(nearest, r.deadline);
      }
      ::poll(fds.data(), fds.size(), poll_ms(nearest));
      if (fds[0].revents != 0)
        if (const int signal = signals.arrived(); signal != 0) return signal;
      for (std::size_t i = running_.size(); i-- > 0;) {
        if (fds[i + 1].revents != 0 && !listen(running_[i])) {
          Running ended = std::move(running_[i]);
          running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
          finish(std::move(ended));
        } else if (!running_[i].timed_out &&
                   std::chrono::steady_clock::now() > running_[i].deadline) {
          running_[i].timed_out = true;
          running_[i].stop();  // its end of the pipe closes, which ends the wait
        }
      }
      ledger_.deliver();
    }
    return 0;
  }

 private:
  bool needs_library(const Work& work) const {
    return std::ranges::any_of(work.todo, [&](std::size_t c) {
      return !subjects_[work.number].candidates[c].environment.empty();
    });
  }
  bool library_is_there() { return zygote_ && zygote_->trouble(options_.timeout_s).empty(); }

  // A fork costs more than most subjects: a child gets several, fewer towards the end.
  void start_next() {
    constexpr std::size_t kMost = 16, kRounds = 4;
    const std::size_t share =
        std::clamp<std::size_t>(waiting_.size() / (kRounds * jobs_), 1, kMost);
    const bool device = waiting_.front().device, library = needs_library(waiting_.front());
    std::vector<Work> batch;
    while (batch.size() < share && !waiting_.empty() && waiting_.front().device == device &&
           needs_library(waiting_.front()) == library) {
      Work work = std::move(waiting_.front());
      waiting_.pop_front();
      if (library && !library_is_there()) refuse_library(work);
      if (!work.todo.empty()) batch.push_back(std::move(work));
    }
    if (!batch.empty()) start(std::move(batch));
  }

  void refuse_library(Work& work) {
    const std::string why = zygote_ ? zygote_->trouble(0) : "this build has no libparity_torch.so";
    std::erase_if(work.todo, [&](std::size_t c) {
      if (subjects_[work.number].candidates[c].environment.empty()) return false;
      ledger_.unsupported(work.number, c, why);
      return true;
    });
  }

  void start(std::vector<Work> work) {
    Pipe pipe = make_pipe();
    Running r;
    r.work = std::move(work);
    r.deadline = after_seconds(options_.timeout_s + kGrace);
    if (std::ranges::any_of(r.work, [&](const Work& w) { return needs_library(w); })) {
      zygote_->start(r.work, pipe.write.get());
    } else {
      const pid_t self = ::getpid();
      r.pid = lean_fork();
      if (r.pid < 0) throw Failure("fork failed");
      if (r.pid == 0) {
        pipe.read.reset();
        if (!become_child(self)) ::_exit(2);
        const auto subject_of = [&](std::size_t i) -> const Subject& { return subjects_[i]; };
        serve(r.work, subject_of, options_, hooks_, pipe.write.get());
      }
    }
    r.pipe = std::move(pipe.read);
    running_.push_back(std::move(r));
  }

  // False at the end of its messages.
  bool listen(Running& r) {
    std::array<char, 1 << 16> chunk{};
    const ssize_t n = ::read(r.pipe.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) return false;
    try {
      r.reader.feed({chunk.data(), static_cast<std::size_t>(n)});
      while (const auto frame = r.reader.next()) take(r, *frame);
    } catch (const std::exception&) {
      return false;  // a child that talks nonsense is ended; what it owes becomes an error
    }
    return true;
  }

  void take(Running& r, const Frame& frame) {
    std::vector<std::size_t>& todo = r.work[r.at].todo;
    double grace = 0;
    switch (frame.kind) {
      case FrameKind::Hello:
        if (r.pid < 0) r.pid = std::stoi(frame.payload);
        break;
      case FrameKind::Truth:
        if (frame.index >= r.work.size()) throw Failure("work that it was not given");
        r.at = frame.index;
        break;
      case FrameKind::TruthFailed: {
        const std::size_t line = frame.payload.find('\n');
        fail(r.subject(), todo, {frame.payload.substr(0, line), frame.payload.substr(line + 1)});
        todo.clear();
        break;
      }
      case FrameKind::Base:
        r.current = frame.index;
        break;
      case FrameKind::Candidate:
        r.current = frame.index;
        r.grandchild = std::stoi(frame.payload);
        if (r.grandchild != r.pid) grace = kGrace;  // the child keeps that time itself
        break;
      case FrameKind::Record:
        ledger_.record(r.subject(), frame.index, from_wire(frame.payload));
        std::erase(todo, frame.index);
        r.grandchild = -1;
        r.answered = true;
        break;
      case FrameKind::Skipped:
        ledger_.skip(r.subject(), frame.index);
        std::erase(todo, frame.index);
        break;
    }
    r.deadline = after_seconds(options_.timeout_s + grace);
    if (frame.kind != FrameKind::Hello) r.phase = frame.kind;
  }

  void fail(std::size_t subject, const std::vector<std::size_t>& candidates,
            const Trouble& trouble) {
    for (const std::size_t c : candidates)
      ledger_.record(subject, c,
                     error_record(subjects_[subject], subjects_[subject].candidates[c], trouble));
  }

  // What a dead child still owes: the guilty become errors, the others get a new child.
  void finish(Running r) {
    const std::optional<Ending> ending = r.end();
    const auto owes = [](const Work& w) { return !w.todo.empty(); };
    if (std::ranges::none_of(r.work, owes)) return;
    // One that may be spoilt ends by itself after it has answered.
    const bool done = ending && ending->status == 0 && r.phase == FrameKind::Record && r.answered;
    if (!done) blame(r, ending);
    std::erase_if(r.work, [&](const Work& w) { return !owes(w); });
    if (!r.work.empty()) start(std::move(r.work));
  }

  void blame(Running& r, const std::optional<Ending>& ending) {
    while (r.work[r.at].todo.empty()) {  // between two pieces of work: the next
      r.at = (r.at + 1) % r.work.size();
      r.phase = FrameKind::Hello;
    }
    Trouble trouble =
        ending ? explain(*ending) : Trouble{"crash", "the child ended before it began"};
    if (r.timed_out)
      trouble = {"timeout", fmt::format("no answer within {:g} s", options_.timeout_s)};
    std::vector<std::size_t>& todo = r.work[r.at].todo;
    std::vector<std::size_t> guilty = todo;
    if (r.phase == FrameKind::Candidate) {
      guilty = {r.current};
    } else if (r.phase == FrameKind::Base) {
      trouble.reason = "base: " + trouble.reason;
      const Subject& subject = subjects_[r.subject()];
      const std::string key = subject.candidates[r.current].contract.key();
      std::erase_if(guilty,
                    [&](std::size_t c) { return subject.candidates[c].contract.key() != key; });
    } else if (r.phase == FrameKind::Truth) {
      trouble.reason = "truth: " + trouble.reason;
    }
    fail(r.subject(), guilty, trouble);
    for (const std::size_t c : guilty) std::erase(todo, c);
  }

  static constexpr double kGrace = 10;  // seconds

  const std::vector<Subject>& subjects_;
  const SuiteOptions& options_;
  const SuiteHooks& hooks_;
  Ledger& ledger_;
  std::size_t jobs_ = 1;
  std::deque<Work> waiting_ = {};
  std::vector<Running> running_ = {};
  std::unique_ptr<Zygote> zygote_ = {};
};

// Everything in this process: no limits, no isolation.
void run_here(const std::vector<Subject>& subjects, const SuiteOptions& options,
              const SuiteHooks& hooks, Ledger& ledger) {
  const WalkOptions walk{
      .repeat = options.repeat, .details = options.details, .waive = options.waive};
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    ledger.deliver();
    const Subject& subject = subjects[s];
    const std::vector<std::size_t> todo = ledger.todo(s);
    std::optional<Groundwork> ground;
    for (const std::size_t c : todo) {
      const Candidate& candidate = subject.candidates[c];
      if (!candidate.environment.empty() && !candidate.run) {
        ledger.unsupported(s, c, "needs a process of its own; run it isolated");
        continue;
      }
      if (hooks.wanted && !hooks.wanted(s, c)) {
        ledger.skip(s, c);
        continue;
      }
      CaseRecord record;
      try {
        if (!ground) ground.emplace(subject, wants_gradients(subject, todo));
        record = run_case(subject, candidate, ground->known(candidate.contract), walk);
      } catch (...) {
        record = error_record(subject, candidate, trouble_of(std::current_exception()));
      }
      if (hooks.finished) hooks.finished(s, c, record);
      ledger.record(s, c, std::move(record));
    }
  }
  ledger.deliver();
}

}  // namespace

SuiteResult run_suite(const std::vector<Subject>& given, const SuiteOptions& options,
                      const SuiteHooks& hooks, const Sink& sink, const ShowProgress& progress) {
  std::vector<Subject> narrowed;
  if (options.direction != Direction::Both) {
    narrowed = given;
    for (Subject& s : narrowed) s.direction = options.direction;
  }
  const std::vector<Subject>& subjects = narrowed.empty() ? given : narrowed;
  Ledger ledger(subjects, options, hooks, sink, progress);
  int signal = 0;
  if (options.isolate) {
    const Signals signals;
    signal = Suite(subjects, options, hooks, ledger).run(signals);
  } else {
    run_here(subjects, options, hooks, ledger);
  }
  if (signal != 0) ::raise(signal);  // ends this process unless the caller handles it
  SuiteResult result = ledger.result();
  result.interrupted = signal;
  return result;
}

SuiteResult run_suite(const std::vector<Subject>& subjects, const SuiteOptions& options,
                      const Sink& sink, const ShowProgress& progress) {
  return run_suite(subjects, options, SuiteHooks{}, sink, progress);
}

}  // namespace parity
