#include "broker/access/host_address.h"

#include <algorithm>

namespace meshbus {
namespace {

tl::unexpected<Error> refuse(std::string why) {
  return fail(ErrorCode::configuration_error, std::move(why));
}

}  // namespace

bool is_tcp(const HostAddr& address) {
  return address.transport() == Transport::tcp;
}

Result<void> check_addresses(const std::vector<HostAddr>& binds,
                             const std::optional<HostAddr>& advertise, bool may_tcp) {
  if (binds.empty()) return refuse("a broker needs an address to listen on: --bind unix:/path");
  for (const HostAddr& bind : binds) {
    if (bind.transport() == Transport::local)
      return refuse(bind.to_string() +
                    " is an address inside one process; listen on unix: or tcp:");
    if (is_tcp(bind) && !may_tcp)
      return refuse("listening on " + bind.to_string() +
                    " needs keys, else everybody on that network could start processes as this "
                    "user: make them with meshbus keygen host NAME "
                    "(keys.directory says where they are), use unix: addresses, or say --insecure "
                    "if this network is yours alone");
  }
  if (!advertise) {
    if (is_tcp(binds.front()) && binds.front().is_wildcard())
      return refuse(binds.front().to_string() +
                    " is no address that others can connect to; name the address of this host: "
                    "--advertise tcp:NAME:PORT");
    return {};
  }
  if (advertise->transport() == Transport::local)
    return refuse(advertise->to_string() +
                  " cannot be the address of a host; advertise a unix: or tcp: address");
  if (advertise->is_wildcard())
    return refuse(advertise->to_string() +
                  " cannot be the address of a host; choose an address or name that others can "
                  "connect to: --advertise tcp:NAME:" +
                  std::to_string(advertise->port()));
  const auto tcp = std::find_if(binds.begin(), binds.end(), is_tcp);
  if (is_tcp(*advertise)) {
    if (tcp == binds.end())
      return refuse("the address of the host is to be " + advertise->to_string() +
                    ", but it listens on no tcp address: add --bind tcp:ADDRESS:PORT");
  } else if (!advertise->is_any() &&
             std::find(binds.begin(), binds.end(), *advertise) == binds.end()) {
    return refuse("the address of the host is to be " + advertise->to_string() +
                  ", but it does not listen there: add --bind " + advertise->to_string());
  }
  return {};
}

HostAddr advertised_address(const std::vector<HostAddr>& bound,
                            const std::optional<HostAddr>& advertise) {
  if (!advertise) return bound.front();
  if (!advertise->is_any()) return *advertise;
  for (const HostAddr& one : bound) {
    if (one.transport() != advertise->transport()) continue;
    if (!is_tcp(one)) return one;
    if (auto with_port = HostAddr::tcp(advertise->host(), one.port())) return *with_port;
  }
  return bound.front();
}

}  // namespace meshbus
