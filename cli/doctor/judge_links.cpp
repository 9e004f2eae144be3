#include "cli/doctor/judge_links.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace meshbus::cli::doctor {
namespace {

using std::chrono::microseconds;

/// Within a site a round trip takes less than a millisecond; light alone needs 20 ms for 2000 km
/// and back.
constexpr microseconds kSlowRoundTrip = std::chrono::milliseconds(20);
/// Ethernet of 100 Mbit/s carries 12 MB/s: a cable or a port of a faster network that fell back to
/// it.
constexpr double kSlowBytes = 13e6;
/// A round trip to another host passes through a second broker, both ways, and so takes a little
/// over twice as long as one within a host, where the network takes no time.
constexpr int kOwnRoundTrips = 4;
/// Between hosts bodies are enciphered and copied twice more.
constexpr double kOwnBytes = 10;

std::string number_text(const char* form, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

double milliseconds_of(microseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// Whether messages to it stay on this machine.
bool is_here(const std::string& host) {
  return host == kThisMachine || host.starts_with("unix:") || host.starts_with("tcp:127.") ||
         host.starts_with("tcp:[::1]") || host.starts_with("tcp:localhost:");
}

bool is_late(const LinkExam& link) {
  return link.round_trip >= kSlowRoundTrip;
}

bool is_narrow(const LinkExam& link) {
  return link.bytes_per_s && *link.bytes_per_s < kSlowBytes;
}

/// Whether the machine at that end explains it: what stays within it is slow, too.
bool explains(const HostExam& host, const LinkExam& link) {
  const auto& own = host.own_pace;
  return own && (!is_late(link) || link.round_trip < kOwnRoundTrips * own->round_trip) &&
         (!is_narrow(link) || *link.bytes_per_s * kOwnBytes > own->bytes_per_s);
}

/// A slow way that neither end explains.
bool is_slow(const SiteExam& site, const LinkExam& link) {
  return looks_slow(site, link) && !explains(site.hosts[link.from], link) &&
         !explains(site.hosts[link.to], link);
}

std::string slowness_text(const LinkExam& link) {
  std::string text;
  if (is_late(link))
    text = "a round trip takes " + number_text("%.0f ms", milliseconds_of(link.round_trip));
  if (is_narrow(link))
    text += (text.empty() ? "" : ", and ") + number_text("%.1f MB/s", *link.bytes_per_s / 1e6) +
            " get through";
  return text;
}

/// The links of one kind, gathered by the host that has the most of them until none is left.
class LinkGroups {
 public:
  LinkGroups(const SiteExam& site, const std::function<bool(const LinkExam&)>& is_of_kind)
      : site_(site) {
    for (const auto& link : site.links) {
      if (is_of_kind(link)) links_.push_back(&link);
    }
  }
  /// The next group; its links are in the order of the others' numbers. Empty: there is none.
  std::vector<const LinkExam*> next() {
    std::map<std::size_t, std::size_t> counts;
    for (const auto* link : links_) {
      ++counts[link->from];
      ++counts[link->to];
    }
    if (counts.empty()) return {};
    host_ = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
              return a.second < b.second;
            })->first;
    std::vector<const LinkExam*> group;
    std::erase_if(links_, [&](const LinkExam* link) {
      const bool is_in = link->from == host_ || link->to == host_;
      if (is_in) group.push_back(link);
      return is_in;
    });
    return group;
  }
  /// The number of the host that has these links.
  std::size_t host() const { return host_; }
  std::string other_end(const LinkExam& link) const {
    return site_.hosts[link.from == host_ ? link.to : link.from].host;
  }
  std::size_t links_of_host() const {
    return static_cast<std::size_t>(std::count_if(
        site_.links.begin(), site_.links.end(),
        [&](const LinkExam& link) { return link.from == host_ || link.to == host_; }));
  }

 private:
  const SiteExam& site_;
  std::vector<const LinkExam*> links_;
  std::size_t host_ = 0;
};

/// ": with tcp:h2:7420", or how many there are.
std::string others_text(const LinkGroups& groups, const std::vector<const LinkExam*>& group) {
  if (group.size() == 1) return groups.other_end(*group.front());
  return std::to_string(group.size()) + " of the " + std::to_string(groups.links_of_host()) +
         " hosts that were tried with it (" + groups.other_end(*group.front()) +
         (group.size() == 2 ? " and " + groups.other_end(*group.back()) : ", ...") + ")";
}

Finding wrong_key_finding(const LinkGroups& groups, const std::vector<const LinkExam*>& group,
                          const std::string& host) {
  return {Severity::error,
          "wrong_key",
          {host},
          "it and " + others_text(groups, group) +
              " do not know each other's keys: " + group.front()->problem,
          "copy authorised/host/*.pub of each host to all others"};
}

Finding unlinked_finding(const LinkGroups& groups, const std::vector<const LinkExam*>& group,
                         const std::string& host) {
  return {Severity::error,
          "not_linked",
          {host},
          "no connection is made between it and " + others_text(groups, group) + ": " +
              group.front()->problem,
          "copy authorised/host/*.pub of each host to all others, and advertise addresses that "
          "others reach"};
}

Finding cut_finding(const LinkGroups& groups, const std::vector<const LinkExam*>& group,
                    const std::string& host) {
  return {Severity::error,
          "cut",
          {host},
          "no way between it and " + others_text(groups, group) + ": " + group.front()->problem,
          "look at routes and firewalls between them, and at the addresses that they advertise"};
}

Finding slow_finding(const LinkGroups& groups, const std::vector<const LinkExam*>& group,
                     const std::string& host) {
  const auto worst =
      *std::max_element(group.begin(), group.end(),
                        [](const auto* a, const auto* b) { return a->round_trip < b->round_trip; });
  return {Severity::warning,
          "slow",
          {host},
          "slow with " + others_text(groups, group) + ": " + slowness_text(*worst) +
              (group.size() == 1 ? "" : " at worst"),
          "look at its network: cable, port speed, errors (ip -s link), other traffic"};
}

/// A host whose own slowness explains that of `link`.
Finding busy_finding(const SiteExam& site, const HostExam& host, const LinkExam& link) {
  const auto& other = &site.hosts[link.from] == &host ? site.hosts[link.to] : site.hosts[link.from];
  return {Severity::warning,
          "busy",
          {host.host},
          "its machine is too busy, or too slow, to tell how fast its network is: with " +
              other.host + " " + slowness_text(link) + "; within it a round trip takes " +
              number_text("%.1f ms", milliseconds_of(host.own_pace->round_trip)) + ", and " +
              number_text("%.0f MB/s", host.own_pace->bytes_per_s / 1e6) + " get through",
          "look at what else runs there (top), and examine it again"};
}

std::vector<Finding> busy_findings(const SiteExam& site) {
  std::vector<Finding> findings;
  for (const auto& host : site.hosts) {
    const auto blamed = std::find_if(site.links.begin(), site.links.end(), [&](const auto& link) {
      return (&site.hosts[link.from] == &host || &site.hosts[link.to] == &host) &&
             looks_slow(site, link) && explains(host, link);
    });
    if (blamed != site.links.end()) findings.push_back(busy_finding(site, host, *blamed));
  }
  return findings;
}

}  // namespace

bool is_wrong_key(ErrorCode code) {
  return code == ErrorCode::unauthorised || code == ErrorCode::identity_mismatch;
}

bool is_cut(const LinkExam& link) {
  return link.code != ErrorCode::none && link.code != ErrorCode::unroutable &&
         !is_wrong_key(link.code);
}

/// Within one machine nothing is said of a network: what is slow there is the machine, which has
/// something else to do.
bool looks_slow(const SiteExam& site, const LinkExam& link) {
  if (is_here(site.hosts[link.from].host) && is_here(site.hosts[link.to].host)) return false;
  return link.code == ErrorCode::none && (is_late(link) || is_narrow(link));
}

std::vector<Finding> judge_links(const SiteExam& site) {
  std::vector<Finding> findings;
  const auto gather = [&](const std::function<bool(const LinkExam&)>& is_of_kind, auto make) {
    LinkGroups groups(site, is_of_kind);
    for (auto group = groups.next(); !group.empty(); group = groups.next())
      findings.push_back(make(groups, group, site.hosts[groups.host()].host));
  };
  gather([](const LinkExam& link) { return is_wrong_key(link.code); }, wrong_key_finding);
  gather([](const LinkExam& link) { return link.code == ErrorCode::unroutable; }, unlinked_finding);
  gather(is_cut, cut_finding);
  gather([&site](const LinkExam& link) { return is_slow(site, link); }, slow_finding);
  const auto busy = busy_findings(site);
  findings.insert(findings.end(), busy.begin(), busy.end());
  return findings;
}

}  // namespace meshbus::cli::doctor
