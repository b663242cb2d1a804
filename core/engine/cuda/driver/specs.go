package driver

import "github.com/trainctl/trainctl/core/base/dl"

// The libraries: what they are called, where wheels put them, and how to get
// them. Wheels of CUDA 13 share one directory, those of CUDA 12 have one each.
var (
	SpecCUDA = dl.Spec{
		Name: "CUDA driver", Sonames: []string{"libcuda.so.1"}, Env: "TRAINCTL_LIBCUDA",
		Install: "install the NVIDIA driver (535 or later) from the distribution; in a container run it with --gpus all",
	}
	SpecNVRTC = dl.Spec{
		Name: "NVRTC", Sonames: []string{"libnvrtc.so.13", "libnvrtc.so.12"}, Toolkit: true, Env: "TRAINCTL_LIBNVRTC",
		Wheels: []string{"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}, Pip: dl.Pip{CUDA12: "nvidia-cuda-nvrtc-cu12", CUDA13: "nvidia-cuda-nvrtc"},
	}
	SpecBlasLt = dl.Spec{
		Name: "cuBLASLt", Sonames: []string{"libcublasLt.so.13", "libcublasLt.so.12"}, Toolkit: true, Env: "TRAINCTL_LIBCUBLASLT",
		Wheels: []string{"nvidia/cu13/lib", "nvidia/cublas/lib"}, Pip: dl.Pip{CUDA12: "nvidia-cublas-cu12", CUDA13: "nvidia-cublas"},
	}
	SpecDNN = dl.Spec{
		Name: "cuDNN", Sonames: []string{"libcudnn.so.9"}, Toolkit: true, Env: "TRAINCTL_LIBCUDNN",
		Wheels: []string{"nvidia/cudnn/lib"}, Pip: dl.Pip{CUDA12: "nvidia-cudnn-cu12", CUDA13: "nvidia-cudnn-cu13"},
	}
	SpecNCCL = dl.Spec{
		Name: "NCCL", Sonames: []string{"libnccl.so.2"}, Toolkit: true, Env: "TRAINCTL_LIBNCCL",
		Wheels: []string{"nvidia/nccl/lib"}, Pip: dl.Pip{CUDA12: "nvidia-nccl-cu12", CUDA13: "nvidia-nccl-cu13"},
	}
)
