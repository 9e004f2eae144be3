#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/controller/http/page_order.h"
#include "client/src/site/site_feed.h"
#include "common/loop/reactor.h"

namespace meshbus {

/// What the page does to ranks: it asks the hosts of a mesh to stop or signal them, or to look at
/// their stacks. Lives on the reactor's thread.
class PageActs {
 public:
  struct Options {
    /// The name of the requester in exit reports.
    std::string requester;
    /// What ranks get to end by themselves, where the request does not say.
    std::chrono::milliseconds grace{10'000};
  };
  /// 200: every host did what it was asked for; 502: one did not. Then `text` is JSON, with
  /// `ranks`, `not_done` and what was found. Else nothing was done, and `text` says why.
  struct Outcome {
    int status;
    std::string text;
  };
  using Done = std::function<void(const Outcome& outcome)>;

  PageActs(Reactor& reactor, SiteFeed& site, Options options)
      : reactor_(reactor), site_(site), options_(std::move(options)) {}

  /// `done` is called once, perhaps within this call; not when this object is gone before.
  void act(PageOrder order, Done done);

 private:
  struct Act;

  void ask_stop(const std::shared_ptr<Act>& act, const HostAddr& host, const RankSet& ranks);
  void ask_signal(const std::shared_ptr<Act>& act, const HostAddr& host, const RankSet& ranks);
  void ask_stacks(const std::shared_ptr<Act>& act, const HostAddr& host, const RankSet& ranks);
  void ask(const std::shared_ptr<Act>& act, const HostAddr& host, const RankSet& ranks);

  Reactor& reactor_;
  SiteFeed& site_;
  Options options_;
  /// How many acts wait for hosts.
  std::shared_ptr<std::size_t> open_ = std::make_shared<std::size_t>(0);
};

}  // namespace meshbus
