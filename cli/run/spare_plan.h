#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace meshbus::cli {

/// Which hosts the attempts of a job run on when some hosts are spares (spec 18.1). Pure: a host is
/// its number among the hosts of the run, and the time is an argument.
class SparePlan {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// An attempt uses `use` of `hosts` hosts or, when fewer are left, all of them if they are at
  /// least `least`.
  SparePlan(std::uint64_t hosts, std::uint64_t use, std::uint64_t least);

  /// The host is lost: no attempt uses it again, unless it comes back. What it runs may go on until
  /// `over`.
  void lose(std::uint64_t host, Time over);
  /// It is proved that nothing runs there any more.
  void confirm_end(std::uint64_t host);
  bool is_lost(std::uint64_t host) const { return lost_.contains(host); }
  /// A lost host is there again. Returns whether it is used again, which it is when too few others
  /// are left; not before clear_at().
  bool come_back(std::uint64_t host);
  /// The host is not fit for the job: it stays lost, even if it comes back.
  void refuse(std::uint64_t host);
  /// The host is drained: no attempt uses it until it is taken back. Nothing runs there.
  void set_aside(std::uint64_t host) { aside_.insert(host); }
  void take_back(std::uint64_t host) { aside_.erase(host); }
  bool is_aside(std::uint64_t host) const { return aside_.contains(host); }
  bool has_aside() const { return !aside_.empty(); }
  /// Hosts that can be used: neither lost nor set aside.
  std::uint64_t left() const;
  bool is_enough() const { return left() >= least_; }
  /// There are as many as an attempt uses at the most.
  bool is_full() const { return left() >= use_; }
  /// Whether hosts may still come back: lost ones, or those that are set aside.
  bool may_grow() const;

  /// The hosts of the next attempt. A spare takes the place of each host that is lost or set aside,
  /// and the others keep theirs; without enough spares the others close up. Nothing when fewer than
  /// `least` are left.
  std::optional<std::vector<std::uint64_t>> choose();
  /// The hosts of the last attempt that was chosen.
  const std::vector<std::uint64_t>& chosen() const { return chosen_; }
  /// Nothing of a former attempt runs on a lost host after this time: the next attempt may begin.
  Time clear_at() const;

 private:
  struct Loss {
    std::uint64_t host;
    Time over;
  };

  bool is_usable(std::uint64_t host) const { return !is_lost(host) && !is_aside(host); }

  std::uint64_t hosts_;
  std::uint64_t use_;
  std::uint64_t least_;
  std::vector<std::uint64_t> chosen_;
  std::set<std::uint64_t> lost_;
  std::set<std::uint64_t> aside_;
  std::set<std::uint64_t> refused_;
  /// Lost hosts that may still run something.
  std::vector<Loss> silent_;
};

}  // namespace meshbus::cli
