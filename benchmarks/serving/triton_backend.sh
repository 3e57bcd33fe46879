#!/usr/bin/env bash
# Compiles Triton's native ONNX Runtime backend into an environment with nvidia-pytriton 0.7.0 and onnxruntime:
#   triton_backend.sh SOURCES ENVIRONMENT
# SOURCES holds checkouts of triton-inference-server's onnxruntime_backend, backend, core and common at r24.10, and in
# ort/ the headers onnxruntime_c_api.h, onnxruntime_ep_c_api.h and onnxruntime_error_code.h of no later a version than
# the package. Needs g++ and rapidjson (Debian: rapidjson-dev). A minute of one core.
set -euo pipefail
sources=$1
environment=$(realpath "$2")
target=$environment/backends/onnxruntime
library=$(echo "$environment"/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)
mkdir -p "$target"
ln -sf "$library" "$target/libonnxruntime.so.1"
cd "$sources"
backend=(backend/src/backend_{common,input_collector,memory,model,model_instance,output_responder}.cc)
common=(common/src/{error,async_work_queue,thread_pool}.cc)
native=(onnxruntime_backend/src/onnxruntime{,_loader,_utils}.cc)
g++ -std=c++17 -O2 -fPIC -shared -w -Iort -I{backend,core,common}/include "${backend[@]}" "${common[@]}" "${native[@]}" \
  "$target/libonnxruntime.so.1" -Wl,-rpath,'$ORIGIN' \
  -Wl,--version-script=onnxruntime_backend/src/libtriton_onnxruntime.ldscript -o "$target/libtriton_onnxruntime.so"
