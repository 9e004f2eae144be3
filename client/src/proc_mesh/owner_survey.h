#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/src/context/connection.h"
#include "common/wire/control.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// Which owner a mesh has, as each of its hosts says. Asks with GetState and waits.
class OwnerSurvey {
 public:
  using Time = std::chrono::steady_clock::time_point;
  OwnerSurvey(Connection& connection, std::string mesh, const std::vector<HostAddr>& hosts,
              Time end);

  /// By host, as it was answered: a MeshState.
  using Answers = std::vector<std::pair<HostAddr, Result<ControlMessage>>>;
  const Answers& answers() const noexcept { return answers_; }
  /// The owners (ProcIds) that answer for it somewhere.
  const std::set<std::string>& owners() const noexcept { return owners_; }
  /// Hosts where nobody answers for it any more.
  const std::vector<HostAddr>& ownerless() const noexcept { return ownerless_; }
  /// Hosts that did not answer, or do not know it, and why.
  const std::map<HostAddr, Error>& problems() const noexcept { return problems_; }
  /// Whether its hosts keep a restart policy that is not over.
  bool has_restarts() const noexcept { return has_restarts_; }
  /// "A answers for it", "nobody answers for it any more", ...
  std::string words() const;

 private:
  void take(const HostAddr& host, const Result<ControlMessage>& answer);

  Answers answers_;
  std::set<std::string> owners_;
  std::vector<HostAddr> ownerless_;
  std::map<HostAddr, Error> problems_;
  bool has_restarts_ = false;
};

}  // namespace meshbus
