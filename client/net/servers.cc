#include "client/net/servers.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "quantd/error.h"

namespace quantd::client {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::system_clock;

constexpr milliseconds kFresh{30'000};  // how long resolved addresses are used
// Time between look-ups when servers are lost.
constexpr milliseconds kLostAgain{1000};
// Time between look-ups of a name that has never resolved.
constexpr milliseconds kUnresolved{100};

// How long a failed server or connection is avoided if there is a better one. A
// report of the server's watch can end this earlier.
constexpr milliseconds kAfterLoss{1000};
constexpr milliseconds kAfterFault{5000};

// Added to the bytes of each call, because even an empty call has a cost.
constexpr size_t kBytesOfACall = 4096;

constexpr size_t kListed = 8;

}  // namespace

struct Servers::Connection {
  explicit Connection(std::shared_ptr<grpc::Channel> c)
      : channel(std::move(c)), stub(channel) {}
  std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  size_t bytes = 0;  // of requests in flight
  Clock::time_point avoid_until = {};
};

struct Servers::Server {
  Address address;
  std::vector<std::unique_ptr<Connection>> connections;
  Candidate state;
  std::string said;  // the last error
  HealthWatcher::Watch* watch = nullptr;

  Connection* LeastBusy() const;
};

// The connection with the fewest bytes in flight among those of the best rank.
// A failing connection always has the fewest bytes and would attract all calls.
// While a connection is failing, unconnected ones are avoided as well.
Servers::Connection* Servers::Server::LeastBusy() const {
  const auto now = Clock::now();
  const auto is_lost = [now](const auto& c) { return c->avoid_until > now; };
  const bool some_are_lost =
      std::any_of(connections.begin(), connections.end(), is_lost);
  const auto rank = [&](const auto& c) {
    const bool made =
        !some_are_lost || c->channel->GetState(false) == GRPC_CHANNEL_READY;
    return std::tuple(!made, is_lost(c), c->bytes);
  };
  return std::min_element(
             connections.begin(), connections.end(),
             [&](const auto& a, const auto& b) { return rank(a) < rank(b); })
      ->get();
}

struct Servers::Name {
  HostName name;
  Clock::time_point asked = {};
  bool asking = false;
  std::string error;  // of the last look-up
  std::vector<Address> found;
};

struct Servers::Link {
  std::mutex mutex;
  Servers* owner = nullptr;
};

struct Servers::Lease::Return {
  Servers* owner;
  std::shared_ptr<Server> server;
  Connection* connection;
  size_t bytes;
  size_t unsent = bytes;

  ~Return() {
    std::lock_guard lock(owner->mutex_);
    connection->bytes -= unsent;
    server->state.bytes_under_way -= bytes;
  }
};

Servers::Lease::~Lease() = default;

void Servers::Lease::PayloadIsSent() {
  std::lock_guard lock(taken_->owner->mutex_);
  taken_->connection->bytes -= std::exchange(taken_->unsent, 0);
}

grpc::GenericStub& Servers::Lease::stub() const {
  return taken_->connection->stub;
}

bool Servers::Lease::by_unix() const {
  return taken_->server->address.target.starts_with("unix");
}

std::shared_ptr<grpc::Channel> Servers::Lease::channel() const {
  return taken_->connection->channel;
}

Servers::Servers(std::vector<Place> places, ChannelFactory channels,
                 int connections, Resolver resolver)
    : channels_(std::move(channels)),
      connections_(connections),
      resolver_(std::move(resolver)),
      link_(std::make_shared<Link>()) {
  link_->owner = this;
  for (Place& place : places) {
    if (auto* address = std::get_if<Address>(&place)) {
      fixed_.push_back(std::move(*address));
    } else {
      names_.emplace_back().name = std::get<HostName>(std::move(place));
    }
  }
}

Servers::~Servers() {
  {
    std::lock_guard lock(link_->mutex);
    link_->owner = nullptr;
  }
  watcher_.reset();
}

size_t Servers::size() const {
  std::lock_guard lock(mutex_);
  const auto lost = [](const Name& n) { return n.found.empty(); };
  return std::max(servers_.size(), fixed_.size()) +
         static_cast<size_t>(std::count_if(names_.begin(), names_.end(), lost));
}

std::vector<Candidate> Servers::Candidates(const Tried& tried) const {
  std::vector<Candidate> candidates;
  candidates.reserve(servers_.size());
  for (const auto& server : servers_) {
    candidates.push_back(server->state);
    candidates.back().tried =
        std::find(tried.begin(), tried.end(), server) != tried.end();
  }
  return candidates;
}

std::optional<Servers::Lease> Servers::Pick(size_t bytes, Time deadline,
                                            CallControl& control,
                                            Tried* tried) {
  bytes += kBytesOfACall;
  std::unique_lock lock(mutex_);
  if (!started_) {
    started_ = true;
    Rebuild();
  }
  LookUp(servers_.empty() ? kUnresolved : kFresh);
  for (;;) {
    const auto candidates = Candidates(*tried);
    const Choice choice = Choose(candidates, Clock::now());
    if (choice.kind == Choice::Kind::kTake) {
      const std::shared_ptr<Server>& server = servers_[choice.index];
      Connection* const least = server->LeastBusy();
      least->bytes += bytes;
      server->state.bytes_under_way += bytes;
      server->state.last_pick = ++picks_;
      tried->push_back(server);
      Lease lease;
      lease.taken_.reset(new Lease::Return{this, server, least, bytes});
      return lease;
    }
    const bool asking = std::any_of(names_.begin(), names_.end(),
                                    [](const Name& n) { return n.asking; });
    const bool hope =
        choice.kind == Choice::Kind::kWait || (servers_.empty() && asking);
    if (!hope || control.cancelled() || Clock::now() >= deadline) {
      // Hurry, because the caller may retry soon.
      for (const auto& server : servers_) {
        if (server->state.health == Health::kDown) {
          watcher_->Hurry(server->watch);
        }
      }
      return std::nullopt;
    }
    waiters_.insert(&control);
    lock.unlock();
    control.WaitForWake(deadline);
    lock.lock();
    waiters_.erase(&control);
  }
}

bool Servers::HasAnother(const Tried& tried) {
  std::lock_guard lock(mutex_);
  const Choice choice = Choose(Candidates(tried), Clock::now());
  return choice.kind == Choice::Kind::kTake && !choice.avoided;
}

void Servers::Report(const Lease& lease, const absl::Status& status) {
  const auto error = GetServerError(status);
  const auto now = Clock::now();
  std::lock_guard lock(mutex_);
  Server& server = *lease.taken_->server;
  Connection& connection = *lease.taken_->connection;
  const auto avoid = [&](milliseconds length) {
    server.state.avoid_until = now + length;
    server.said = std::string(status.message());
  };
  switch (status.code()) {
    case absl::StatusCode::kOk:
      connection.avoid_until = {};
      server.state.avoid_until = {};
      server.said.clear();
      break;
    case absl::StatusCode::kUnavailable:
      // Only an error from the server itself has a request id.
      if (GetRequestId(status).empty()) {
        connection.avoid_until = now + kAfterLoss;
      }
      avoid(kAfterLoss);
      LookUp(kLostAgain);
      break;
    case absl::StatusCode::kResourceExhausted:
      if (const auto hint = GetRetryHint(status)) avoid(hint->delay);
      break;
    case absl::StatusCode::kInternal:
      if (error && error->reason == ErrorReason::kDeviceFault) {
        avoid(kAfterFault);
      }
      break;
    case absl::StatusCode::kDeadlineExceeded:
      if (error) break;  // the server did answer
      avoid(kAfterFault);
      server.said = "it did not answer in time";
      break;
    default:
      break;
  }
}

std::string Servers::Account() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const auto& server : servers_) {
    std::string said = server->said;
    if (said.empty()) {
      said = server->state.health == Health::kUnknown
                 ? "no connection yet"
                 : "it has reported no error";
    }
    lines.push_back(fmt::format("{}: {}", server->address.text(), said));
  }
  for (const Name& name : names_) {
    if (!name.found.empty()) continue;
    lines.push_back(fmt::format(
        "{}: {}", name.name.text(),
        name.error.empty() ? "the name is still being looked up" : name.error));
  }
  std::string text;
  for (size_t i = 0; i < lines.size() && i < kListed; ++i) {
    text += (i == 0 ? "" : "; ") + lines[i];
  }
  if (lines.size() > kListed) {
    text += fmt::format("; and {} more", lines.size() - kListed);
  }
  return text;
}

void Servers::LookUp(milliseconds max_age) {
  const auto now = Clock::now();
  for (size_t i = 0; i < names_.size(); ++i) {
    Name& name = names_[i];
    if (name.asking || now < name.asked + max_age) continue;
    name.asking = true;
    name.asked = now;
    // A look-up cannot be cancelled, so its thread is detached.
    std::thread([i, what = name.name, resolver = resolver_, link = link_] {
      auto found = resolver(what);
      std::lock_guard lock(link->mutex);
      if (link->owner != nullptr) link->owner->OnResolved(i, std::move(found));
    }).detach();
  }
}

void Servers::OnResolved(size_t index,
                         absl::StatusOr<std::vector<Address>> found) {
  std::lock_guard lock(mutex_);
  Name& name = names_[index];
  name.asking = false;
  name.error = found.ok() ? "" : std::string(found.status().message());
  if (found.ok()) {
    name.found = *std::move(found);
    Rebuild();
  }
  WakeWaiters();
}

void Servers::Rebuild() {
  std::vector<Address> wanted = fixed_;
  for (const Name& name : names_) {
    wanted.insert(wanted.end(), name.found.begin(), name.found.end());
  }
  const auto gone = [&](const std::shared_ptr<Server>& server) {
    const bool stays = std::find(wanted.begin(), wanted.end(),
                                 server->address) != wanted.end();
    if (!stays && server->watch != nullptr) watcher_->Stop(server->watch);
    return !stays;
  };
  servers_.erase(std::remove_if(servers_.begin(), servers_.end(), gone),
                 servers_.end());
  for (Address& address : wanted) {
    const bool known = std::any_of(
        servers_.begin(), servers_.end(),
        [&](const auto& server) { return server->address == address; });
    if (known) continue;
    auto server = std::make_shared<Server>();
    for (int i = 0; i < connections_; ++i) {
      server->connections.push_back(
          std::make_unique<Connection>(channels_.ForCalls(address)));
    }
    server->address = std::move(address);
    // Inserted at a random position, so that clients that start together do not
    // all call the same server first.
    const size_t place = random_() % (servers_.size() + 1);
    servers_.insert(servers_.begin() + static_cast<ptrdiff_t>(place),
                    std::move(server));
  }
  for (const auto& server : servers_) {
    if (server->watch != nullptr) continue;
    if (servers_.size() == 1) {
      server->state.health = Health::kServing;
    } else {
      StartWatch(server);
    }
  }
}

void Servers::StartWatch(const std::shared_ptr<Server>& server) {
  if (watcher_ == nullptr) watcher_ = std::make_unique<HealthWatcher>();
  // A report may arrive after the server was removed.
  const std::weak_ptr<Server> weak = server;
  server->watch =
      watcher_->Start(channels_.ForHealth(server->address),
                      [this, weak](Health health, const std::string& why) {
                        const auto strong = weak.lock();
                        if (strong != nullptr)
                          OnHealth(strong.get(), health, why);
                      });
}

void Servers::OnHealth(Server* server, Health health, const std::string& why) {
  std::lock_guard lock(mutex_);
  const bool back =
      health == Health::kServing && server->state.health != Health::kServing;
  server->state.health = health;
  if (!why.empty()) server->said = why;
  if (back) {
    server->said.clear();
    server->state.avoid_until = {};
    for (const auto& connection : server->connections) {
      // The channel may be waiting after a failed attempt to connect.
      grpc::experimental::ChannelResetConnectionBackoff(
          connection->channel.get());
    }
  }
  if (health == Health::kDown) LookUp(kLostAgain);
  WakeWaiters();
}

void Servers::WakeWaiters() {
  for (CallControl* waiter : waiters_) waiter->Wake();
}

}  // namespace quantd::client
