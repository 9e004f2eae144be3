#include "meshbus/site.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "client/src/context/check_owner.h"
#include "client/src/context/context_core.h"
#include "client/src/site/site_feed.h"

namespace meshbus {

class Site::Impl {
 public:
  Impl(std::shared_ptr<ContextCore> core, SiteFeed::Options options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::shared_ptr<ContextCore>& core() const noexcept { return core_; }
  SiteView view(std::uint64_t since) const {
    return core_->visit(
        [&] { return feed_->table().view(since, std::chrono::system_clock::now()); });
  }
  template <typename Condition>
  bool wait(std::chrono::milliseconds limit, Condition is_enough) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, is_enough);
  }
  std::uint64_t sequence() const noexcept { return sequence_; }
  bool is_settled() const noexcept { return is_settled_; }

 private:
  /// On the reactor's thread.
  void note() {
    // The first call may come while the feed is being made.
    if (feed_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    sequence_ = feed_->table().sequence();
    is_settled_ = feed_->table().is_settled();
    changed_.notify_all();
  }

  std::shared_ptr<ContextCore> core_;
  std::unique_ptr<SiteFeed> feed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t sequence_ = 0;  // guarded by mutex_
  bool is_settled_ = false;     // guarded by mutex_
};

// Not in the class: there the lambdas would be symbols that the shared library shows.
Site::Impl::Impl(std::shared_ptr<ContextCore> core, SiteFeed::Options options)
    : core_(std::move(core)) {
  options.reach = [core = core_.get()](const HostAddr& host, Session::Options& session) {
    core->reach(host, session);
  };
  core_->run([&] {
    feed_ = std::make_unique<SiteFeed>(core_->reactor(), std::move(options), [this] { note(); });
  });
}

Site::Impl::~Impl() {
  if (!core_->check_process()) {
    // A forked child: the threads that use it are not here.
    [[maybe_unused]] auto* const left = feed_.release();
  } else if (core_->is_reactor_thread()) {
    feed_.reset();
  } else {
    core_->run([this] { feed_.reset(); });
  }
}

Site::Site(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Site::Site(Site&&) noexcept = default;
Site& Site::operator=(Site&&) noexcept = default;
Site::~Site() = default;

Result<Site> Site::watch(Context& context, std::vector<HostAddr> hosts, SiteOptions options) {
  if (auto fine = check_owner(context.core()); !fine) return fail(fine.error());
  if (hosts.empty()) return fail(ErrorCode::configuration_error, "there is no host to watch");
  return Site(std::make_unique<Impl>(
      context.core(), SiteFeed::Options{.hosts = std::move(hosts), .site = options, .reach = {}}));
}

bool Site::settle(std::chrono::milliseconds limit) const {
  return impl_->wait(limit, [this] { return impl_->is_settled(); });
}

SiteView Site::view(std::uint64_t since) const {
  return impl_->view(since);
}

bool Site::wait(std::uint64_t since, std::chrono::milliseconds limit) const {
  return impl_->wait(limit, [&] { return impl_->sequence() > since; });
}

}  // namespace meshbus
