#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/controller/candidacy.h"
#include "client/controller/controller_gateway.h"
#include "client/controller/former_owners.h"
#include "common/loop/reactor.h"
#include "common/wire/control.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Something that a controller of a pair has to say of itself. A plain value.
struct PairNotice {
  std::string pair;
  /// It acts from now on; else it stands by.
  bool is_acting = false;
  std::uint64_t term = 0;
  /// In words.
  std::string why;
};

/// The seat of a controller in its pair: carries what Candidacy decides over the bus. Without a
/// pair it says that the controller acts, always. Lives on the reactor's thread.
class PairSeat {
 public:
  struct Options {
    /// Empty: the controller is of no pair.
    std::string pair;
    std::vector<HostAddr> hosts;
    std::chrono::milliseconds lease{0};
  };
  struct Events {
    /// It acts from now on, or stands by.
    std::function<void(const PairNotice&)> on_change;
    /// While it acts: the host has answered the claim, in whatever way, and names the controllers
    /// that have acted before.
    std::function<void(const HostAddr&, const std::vector<PairFormer>&)> on_claimed;
  };
  PairSeat(Reactor& reactor, ControllerGateway& gateway, Options options, Events events);
  ~PairSeat() { reactor_.cancel(timer_); }
  PairSeat(const PairSeat&) = delete;
  PairSeat& operator=(const PairSeat&) = delete;

  bool has_pair() const noexcept { return !options_.pair.empty(); }
  const std::string& pair() const noexcept { return options_.pair; }
  /// What was decided last.
  bool is_acting() const noexcept { return !has_pair() || candidacy_.is_acting(); }
  /// Whether it acts at this moment: to be asked before each act of an owner. Reads the clock.
  bool may_act() const;
  /// See Candidacy.
  std::uint64_t term() const noexcept { return has_pair() ? candidacy_.number() : 0; }
  std::string actor() const;
  std::uint32_t others() const noexcept { return candidacy_.others(); }
  /// What goes with the orders of an owner; null without a pair.
  std::unique_ptr<wire::TermT> mark() const;
  /// Why a request is refused that only the acting one answers; nothing when this one does.
  Result<void> check() const;

  /// Stands by if the term is over. To be called before anything is judged: this process may have
  /// been stopped.
  void look();
  /// The connection to the broker is there.
  void on_up();
  /// A host was silent and answers again: it hears at once that this one acts, if it does.
  void on_host_back(const HostAddr& host);
  /// Wants no term any more: another one may have it.
  void give_up();
  void resume();
  void close();

 private:
  void on_timer();
  void arm();
  void carry_out(Candidacy::Actions actions);
  void send(const Candidacy::Claim& claim);
  void on_answer(const Candidacy::Claim& claim, const Result<ControlMessage>& answer);

  Reactor& reactor_;
  ControllerGateway& gateway_;
  Options options_;
  Events events_;
  Candidacy candidacy_;
  std::uint64_t digest_ = 0;
  Reactor::TimerId timer_ = 0;
  bool is_closed_ = false;
  /// A host whose agent grants no terms was reported.
  bool has_warned_ = false;
};

}  // namespace meshbus
