// The finished records of a run, kept outside this process's memory until the reports are written:
// every case is forked from here, and a fork copies the table of all pages that its parent holds.
#pragma once

#include <vector>

#include "harness/process.hpp"
#include "harness/record.hpp"

namespace parity::cli {

class RecordStore {
 public:
  RecordStore();  // throws Failure where the kernel gives no anonymous file
  void add(const CaseRecord&);
  std::vector<CaseRecord> all() const;  // in the order of add

 private:
  Fd file_ = {};
};

}  // namespace parity::cli
