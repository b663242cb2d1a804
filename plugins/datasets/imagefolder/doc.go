// Package imagefolder serves JPEG and PNG images that lie in one folder for
// each class, as torchvision.datasets.ImageFolder does: root/train/<class>/*,
// root/val/<class>/*. Classes are numbered in the order of their names.
//
// Open lists the folders and reads no image. [Dataset.Fill] decodes the images
// of a batch on several cores, takes a random crop (training) or the middle
// (evaluation), scales it, and writes (pixel/255 - mean)/std, channel by channel.
//
// Scaling is Pillow's antialiased bilinear filter, rows before columns, bit for
// bit, so PNG images give what torchvision gives; Pillow 13 takes some tall images
// columns first and is then one level off. JPEG images are within 3 levels: colour
// planes are interpolated and converted as libjpeg does, the inverse cosine transform is
// the standard library's. Orientation marks in EXIF data are
// ignored, as torchvision ignores them.
//
// It imports core/base/usererr, core/engine/kernel, core/sdk, core/tensor and
// plugins/datasets/vision. Start with imagefolder.go.
package imagefolder
