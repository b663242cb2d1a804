// Package imagefolder serves JPEG and PNG images in one folder per class, like
// torchvision.datasets.ImageFolder: root/train/<class>/*, root/val/<class>/*.
// Classes are numbered in the order of their names.
//
// Open lists the folders and reads no image. [Dataset.Fill] decodes the images
// of a batch on several cores, takes a random crop (training) or the middle
// (evaluation), scales it, and writes (pixel/255 - mean)/std, channel by channel.
//
// Scaling is Pillow's antialiased bilinear filter, rows before columns, bit for
// bit, so PNG images give the same values as torchvision; Pillow 13 scales the columns
// of some tall images first and then differs by one level. JPEG images are within 3
// levels: colour planes are interpolated and converted as in libjpeg, but the inverse
// cosine transform is the standard library's. EXIF orientation is ignored, as in
// torchvision.
//
// It imports core/base/usererr, core/engine/kernel, core/sdk, core/tensor and
// plugins/datasets/vision. Start with imagefolder.go.
package imagefolder
