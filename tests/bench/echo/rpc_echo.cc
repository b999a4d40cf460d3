#include "tests/bench/echo/rpc_echo.h"

#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "proto/net/allocator.h"
#include "quantd.grpc.pb.h"

namespace quantd::bench {
namespace {

using Service = v1::Quantd::WithRawMethod_Quantize<v1::Quantd::Service>;

// Serves one call after another; several of these objects wait for calls.
class Echo {
 public:
  Echo(Service* service, grpc::ServerCompletionQueue* queue,
       std::vector<char>* staging)
      : service_(service), queue_(queue), staging_(staging) {
    Arm();
  }

  void Deliver(bool ok) {
    if (finishing_) {
      Arm();
    } else if (ok) {
      finishing_ = true;
      Answer();
    }
  }

 private:
  void Arm() {
    finishing_ = false;
    context_ = std::make_unique<grpc::ServerContext>();
    writer_ =
        std::make_unique<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>>(
            context_.get());
    request_.Clear();
    service_->RequestQuantize(context_.get(), &request_, writer_.get(), queue_,
                              queue_, this);
  }

  void Answer() {
    const size_t bytes = request_.Length();
    if (staging_->size() < bytes) staging_->resize(bytes);
    std::vector<grpc::Slice> slices;
    request_.Dump(&slices);
    char* to = staging_->data();
    for (const grpc::Slice& slice : slices) {
      std::memcpy(to, slice.begin(), slice.size());
      to += slice.size();
    }
    slices.clear();
    request_.Clear();
    grpc::Slice slice(staging_->data(), EchoBytes(bytes),
                      grpc::Slice::STATIC_SLICE);
    writer_->Finish(grpc::ByteBuffer(&slice, 1), grpc::Status::OK, this);
  }

  Service* const service_;
  grpc::ServerCompletionQueue* const queue_;
  std::vector<char>* const staging_;
  std::unique_ptr<grpc::ServerContext> context_;
  std::unique_ptr<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> writer_;
  grpc::ByteBuffer request_;
  bool finishing_ = false;
};

}  // namespace

int RunEcho(const std::string& port_file) {
  TuneAllocator();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);

  Service service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const auto queue = builder.AddCompletionQueue();
  auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;

  std::vector<char> staging;
  std::vector<std::unique_ptr<Echo>> calls;
  for (int k = 0; k < 4; ++k) {
    calls.push_back(std::make_unique<Echo>(&service, queue.get(), &staging));
  }
  std::thread poller([&queue] {
    void* tag;
    bool ok;
    while (queue->Next(&tag, &ok)) static_cast<Echo*>(tag)->Deliver(ok);
  });
  {
    std::ofstream file(port_file + ".new");
    file << "127.0.0.1:" << port << '\n';
  }
  std::rename((port_file + ".new").c_str(), port_file.c_str());
  int number = 0;
  sigwait(&stop, &number);
  // The client has disconnected, so no call in flight can start another one.
  server->Shutdown(std::chrono::system_clock::now());
  queue->Shutdown();
  poller.join();
  return 0;
}

}  // namespace quantd::bench
