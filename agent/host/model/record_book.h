#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace meshbus::host {

/// Remembers which ended procs still have an exit report: the last `kept`, none older than `age`
/// (spec 4.9). Pure: it knows names only.
class RecordBook {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Limits {
    std::size_t kept = 1000;
    std::chrono::milliseconds age = std::chrono::hours(1);
  };
  struct Record {
    Time ended;
    std::string mesh;
    std::uint64_t rank;
  };
  explicit RecordBook(Limits limits) : limits_(limits) {}

  void add(Time now, std::string mesh, std::uint64_t rank) {
    records_.push_back({now, std::move(mesh), rank});
  }
  /// Takes out the next record that must be forgotten now; call it until it has none.
  std::optional<Record> forget(Time now) {
    if (records_.empty() ||
        (records_.size() <= limits_.kept && now - records_.front().ended < limits_.age))
      return std::nullopt;
    std::optional<Record> oldest(std::move(records_.front()));
    records_.pop_front();
    return oldest;
  }
  /// Removes a record; false when there was none.
  bool drop(const std::string& mesh, std::uint64_t rank) {
    return std::erase_if(records_, [&](const Record& record) {
             return record.rank == rank && record.mesh == mesh;
           }) > 0;
  }
  /// When the oldest record will be too old; nothing: there is none.
  std::optional<Time> due() const {
    if (records_.empty()) return std::nullopt;
    return records_.front().ended + limits_.age;
  }
  std::size_t size() const noexcept { return records_.size(); }

 private:
  Limits limits_;
  std::deque<Record> records_;
};

}  // namespace meshbus::host
