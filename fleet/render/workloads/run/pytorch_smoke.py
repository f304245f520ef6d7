# What PyTorch says of its GPU. Fails without one, and where a product is not what it should be.
import torch

print("torch", torch.__version__, "for CUDA", torch.version.cuda, "available:", torch.cuda.is_available())
print(torch.cuda.device_count(), "x", torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0))
matrix = torch.ones(1000, 1000, device="cuda")
if not bool((matrix @ matrix == 1000).all()):
    raise SystemExit("the GPU's product of two matrices of ones is wrong")
print("1000 x 1000 product: right")
