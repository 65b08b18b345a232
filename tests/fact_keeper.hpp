#pragma once

#include <utility>
#include <vector>

#include "combu/record.hpp"
#include "combu/run.hpp"

namespace combu::test {

// Writes the facts of a run to the record.
class FactKeeper : public Journal {
 public:
  FactKeeper(Record& record, RunId run) : record_(record), run_(std::move(run)) {}
  void fact(const Fact& fact) override { facts_.push_back(fact); }
  void commit() override {
    record_.append(run_, facts_);
    facts_.clear();
  }

 private:
  Record& record_;
  RunId run_;
  std::vector<Fact> facts_;
};

}  // namespace combu::test
