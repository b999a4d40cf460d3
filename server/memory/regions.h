// The regions and events that are shared with the server, by name. A name is a
// capability: 128 random bits that only their door's client was told.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_MEMORY_REGIONS_H_
#define QUANTD_SERVER_MEMORY_REGIONS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/memory/region.h"

namespace quantd {

class Regions {
 public:
  // Its name from now on. Empty: the system has no random numbers.
  std::string Add(std::shared_ptr<const Region> region) {
    return Add(Shared{std::move(region), nullptr});
  }
  std::string Add(std::shared_ptr<const SharedEvent> event) {
    return Add(Shared{nullptr, std::move(event)});
  }
  // Calls that have found it keep it.
  void Remove(const std::string& name);
  // nullptr: there is none of that name, or not any more. A region's name is no
  // event's.
  std::shared_ptr<const Region> Find(const std::string& name) const {
    return Get(name).region;
  }
  std::shared_ptr<const SharedEvent> FindEvent(const std::string& name) const {
    return Get(name).event;
  }

 private:
  // One of the two.
  struct Shared {
    std::shared_ptr<const Region> region;
    std::shared_ptr<const SharedEvent> event;
  };
  std::string Add(Shared shared);
  Shared Get(const std::string& name) const;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Shared> shared_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_REGIONS_H_
