// A command of the user's, run by the shell with a limit of time.
#pragma once

#include <string>

namespace parity::cli {

struct CommandEnd {
  bool timed_out = false;
  int status = 0;         // of waitpid
  std::string last = {};  // the last lines that it wrote to stdout and stderr
  std::string trouble()
      const;  // "" where it ended with exit code 0, else what happened, with `last`
};

// In the current folder; with all its children it is gone when this returns.
CommandEnd run_command_line(const std::string& line, double seconds);

// A folder that is removed with everything in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace parity::cli
